// Where something stands in a text. Lines and columns count from 1, and a column counts characters (code points),
// as the messages of an editor have it.
/** The lines of a text: where each begins, and where it ends without its line end, as `slice` counts. */
function lines(text) {
    const found = [];
    let from = 0;
    for (const { index, 0: end } of text.matchAll(/\r\n|\n|\r/g)) {
        found.push([from, index]);
        from = index + end.length;
    }
    found.push([from, text.length]);
    return found;
}
const characters = (text) => {
    let count = 0;
    for (const _ of text)
        count++;
    return count;
};
/** Whether a value of a message is a place. */
export function isPlace(value) {
    const counts = (number) => Number.isSafeInteger(number) && number >= 1;
    const { line, column } = (value ?? {});
    return counts(line) && (column === undefined || column === null || counts(column));
}
/** The exact range that a message means.
 *
 * Without an end it is the rest of the line that it begins in. What lies behind the end of the text, or of a line,
 * is moved there: the text may have become shorter since. An end before its start is moved to the start. */
export function resolve(text, start, end) {
    const all = lines(text);
    const place = ({ line, column }, missing) => {
        if (line > all.length)
            return { line: all.length, column: characters(text.slice(...all.at(-1))) + 1 };
        const behind = characters(text.slice(...all[line - 1])) + 1;
        return { line, column: Math.min(column ?? (missing === "first" ? 1 : behind), behind) };
    };
    const from = place(start, "first");
    const to = place(end ?? { line: start.line }, "last");
    return { start: from, end: to.line < from.line || (to.line === from.line && to.column < from.column) ? from : to };
}
/** Where a range begins and ends in a text, as `slice` counts (UTF-16). */
export function offsets(text, range) {
    const all = lines(text);
    const offset = ({ line, column }) => {
        const [from, end] = all[Math.min(line, all.length) - 1];
        let at = from;
        for (let left = column - 1; left > 0 && at < end; left--)
            at += text.codePointAt(at) > 0xffff ? 2 : 1;
        return at;
    };
    return [offset(range.start), offset(range.end)];
}
/** The range between two offsets of a text, as `slice` counts: what an editor's selection is. */
export function rangeOf(text, from, to) {
    const all = lines(text);
    const position = (offset) => {
        const found = all.findLastIndex(([begin]) => begin <= offset);
        const [begin, end] = all[Math.max(found, 0)];
        return { line: Math.max(found, 0) + 1, column: characters(text.slice(begin, Math.min(offset, end))) + 1 };
    };
    return { start: position(Math.min(from, to)), end: position(Math.max(from, to)) };
}
