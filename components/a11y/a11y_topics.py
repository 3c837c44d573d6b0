"""The topics of findings: a title, whom the fault hinders, and the repair; the rules of each
checker by topic."""

# ruff: noqa: E501 - sentences
from typing import NamedTuple


class Topic(NamedTuple):
    """The text that several rules share."""

    title: str
    hinders: str
    repair: str


TOPICS: dict[str, Topic] = {
    "image": Topic(
        "An image without a text in its place",
        "People who hear the page do not learn what the image shows, or hear its file name.",
        'Write what the image says here: `alt="Map of the site"`; `alt=""` if it is decoration or stands beside the same text. An `<svg>` gets `role="img"` and `aria-label`, or `aria-hidden="true"`. Leave out "image of".',
    ),
    "name": Topic(
        "A control without a name",
        'People who hear the page hear "button" or "link" and not what it does; people who speak to the page cannot call it.',
        'Put a text into it: `<button>Save</button>`. Where only an icon is seen, hide the icon (`aria-hidden="true"`) and write `aria-label="Save"`, or a text that is visually hidden.',
    ),
    "field": Topic(
        "A field without a label",
        "People who hear the page do not learn what to enter; a click on the text does not reach the field. A placeholder is no label: it goes away.",
        '`<label for="mail">E-mail</label><input id="mail">` (React: `htmlFor`), or the field within its `<label>`. One label a field; `aria-label` only where no text can be seen; a group gets `<fieldset>` and `<legend>`.',
    ),
    "name-differs": Topic(
        "A visible text that is not in the name",
        "People who speak to the page say what they see, and nothing happens.",
        "Let `aria-label` begin with the visible text, or take it out.",
    ),
    "contrast": Topic(
        "Text that hardly stands out from its background",
        "People with weak sight, or in the sun, cannot read it.",
        "Darken the text or lighten the background until the contrast is 4.5:1 (3:1 from 24 px, or from 18.66 px if bold; 7:1 and 4.5:1 at level AAA). Change it in the theme's colours rather than here alone; look at hover, focus and dark mode too.",
    ),
    "colour": Topic(
        "A link that only its colour shows",
        "People who do not see colours do not find it within the text.",
        "Underline links within text, or give them a contrast of 3:1 to it and a mark on hover and focus.",
    ),
    "language": Topic(
        "The language of the page is not told",
        "A screen reader speaks it by the rules of another language.",
        '`<html lang="en">`, with a valid code. In frameworks it stands in the document\'s template (`index.html`, `app/layout.tsx`, `_document.tsx`).',
    ),
    "language-part": Topic(
        "The language of a part is not told rightly",
        "A screen reader speaks that part by the rules of another language.",
        'A valid code on the element: `<span lang="fr">`.',
    ),
    "title": Topic(
        "A page without a title",
        "People with many tabs, or who hear the page, do not learn where they are.",
        "`<title>Orders, Shop</title>`, what is special first; set anew when a route changes.",
    ),
    "frame": Topic(
        "A frame without a title",
        "People who hear the page do not learn whether to enter it.",
        '`<iframe title="Payment form">`, different for each frame.',
    ),
    "heading": Topic(
        "Headings that do not outline the page",
        "People who hear the page jump from heading to heading; empty, missing or skipped levels mislead them.",
        "One `<h1>`, then each level below the one above; a text in each; choose the level by structure, the size by CSS. What only looks like a heading becomes one.",
    ),
    "landmark": Topic(
        "Content outside of landmarks, or landmarks that are unclear",
        "People who hear the page cannot jump to the main part, or past what repeats.",
        "One `<main>`; `<header>`, `<nav>`, `<aside>`, `<footer>` around the rest, at the top level; several of one kind get an `aria-label` each. A skip link to `#main` comes first.",
    ),
    "list": Topic(
        "A list that is not put together as one",
        "A screen reader does not tell how many items there are, or where they end.",
        '`<ul>` and `<ol>` hold `<li>` alone, `<dl>` holds `<dt>` and `<dd>` (or `<div>` around a pair). Put wrappers inside of `<li>`. `list-style: none` needs `role="list"` for Safari.',
    ),
    "table": Topic(
        "A table whose cells have no headers",
        "Within a table, people hear a value and not what it is of.",
        '`<th scope="col">` and `<th scope="row">` with text, a `<caption>`; `headers` names ids of `<th>` in the same table. Use CSS, not tables, for layout.',
    ),
    "role": Topic(
        "A role that does not exist, or does not fit",
        "Assistive software takes the element for something else, or for nothing.",
        "Use the element that already is what you mean (`<button>`, `<nav>`, `<a href>`), without `role`. Otherwise correct the role's name, and keep interactive roles to elements that work with the keyboard.",
    ),
    "aria": Topic(
        "An ARIA attribute that does not exist, or does not hold here",
        "Assistive software ignores it or tells something wrong.",
        "Correct its name or value (`true`, `false`, an id that is there), or take it out; each role has its own attributes. No ARIA is better than wrong ARIA.",
    ),
    "aria-needs": Topic(
        "A role without what belongs to it",
        "Assistive software cannot tell the state, or where the item belongs.",
        "Add the attributes that the role needs (a `checkbox` its `aria-checked`, a `slider` its `aria-valuenow`) and the elements around or within (`option` in `listbox`, `tab` in `tablist`): or use the native element, which has all of that.",
    ),
    "hidden-focus": Topic(
        "Something hidden that can get the focus",
        "People who hear the page land on nothing.",
        "Take the element out of the focus as well: `hidden`, `inert` or `display: none` on what is hidden; or take `aria-hidden` away. Never on `<body>`.",
    ),
    "ids": Topic(
        "An id that is there twice",
        "Labels and ARIA attributes reach the first element only.",
        "Give each its own id; in components make it: `useId()` in React.",
    ),
    "keyboard": Topic(
        "Something that only a mouse can use",
        "People who use a keyboard, a switch or their voice cannot reach it or set it off.",
        'Use a `<button>` (or `<a href>` to go elsewhere): it has focus, keys and role. Otherwise `role`, `tabIndex={0}` and a key handler for Enter and Space; with hover also focus. A region that scrolls gets `tabindex="0"` and a name.',
    ),
    "focus-order": Topic(
        "An order of focus of its own",
        "The focus jumps, or stops where nothing can be done.",
        "Let the order of the elements be the order of the focus. `tabindex` is `0` for what can be used, `-1` for what code focuses, and nothing above 0; texts have none.",
    ),
    "link": Topic(
        "A link that leads nowhere",
        "It is read as a link, cannot be opened in a tab, and may not get the focus.",
        '`<a href="/where">` if it goes elsewhere, `<button type="button">` if it does something; `#` and `javascript:` are neither.',
    ),
    "link-text": Topic(
        "A link whose text does not say where it leads",
        'People who hear the page go through a list of its links: "here, here, more".',
        'Write the target into the text: "Read the licence". Links of one text lead to one place.',
    ),
    "nested": Topic(
        "A control within a control",
        "The inner one is not told, and may not be reached.",
        "Put them beside each other; a card gets one link, whose `::after` covers it.",
    ),
    "captions": Topic(
        "Video without captions",
        "Deaf people do not get what is said.",
        '`<track kind="captions" src="talk.vtt" srclang="en">` within `<video>`; what is seen and not said needs a description too. A muted background video needs none.',
    ),
    "sound": Topic(
        "Sound without a text, or that starts by itself",
        "Deaf people do not get it; it drowns a screen reader's voice.",
        "Give a transcript; start nothing unasked, or be silent within three seconds, and show a button to stop.",
    ),
    "moving": Topic(
        "Something that blinks or moves without end",
        "People who cannot look away do not read on.",
        "Take `<blink>` and `<marquee>` out; animate by CSS, stop after five seconds or on a button, and obey `prefers-reduced-motion`.",
    ),
    "zoom": Topic(
        "A page that cannot be enlarged",
        "People with weak sight cannot read it.",
        '`<meta name="viewport" content="width=device-width, initial-scale=1">`, without `maximum-scale` and `user-scalable=no`.',
    ),
    "spacing": Topic(
        "Spacing that the user cannot change",
        "People who read with difficulty need wider lines.",
        "Set `line-height`, `letter-spacing` and `word-spacing` in a style sheet without `!important`, not in `style`.",
    ),
    "orientation": Topic(
        "A page for one orientation alone",
        "A tablet on a wheelchair cannot be turned.",
        "Take out the rotation by `@media (orientation: …)`.",
    ),
    "refresh": Topic(
        "A page that reloads by itself",
        "People who need time lose their place.",
        'Take `<meta http-equiv="refresh">` out; redirect on the server; let the user reload.',
    ),
    "autocomplete": Topic(
        "A field about the user that does not say so, or wrongly",
        "The browser cannot fill it in.",
        'A valid value: `autocomplete="email"`, `"given-name"`, `"street-address"`, `"one-time-code"`.',
    ),
    "target": Topic(
        "A target too small",
        "People with an unsteady hand hit what is beside it.",
        "Give it 24 by 24 pixels, by padding if need be, or that much room around.",
    ),
    "shortcut": Topic(
        "A keyboard shortcut of the page's own",
        "It collides with shortcuts of the browser and of screen readers.",
        "Take `accesskey` out, or make each unique and let the user turn it off.",
    ),
    "autofocus": Topic(
        "The focus moves by itself",
        "People who hear the page begin in its middle.",
        "Leave `autofocus` out, but for a page or dialog of which the field is the purpose.",
    ),
    "change": Topic(
        "A change of context on input",
        "People who go through a list by keyboard set off each entry.",
        "Act on a button, or on `onBlur` in place of `onChange` where very old browsers count; a form has a submit button.",
    ),
    "untested": Topic(
        "A part that the checker did not see",
        "It may hold any of the other errors.",
        "Show the hidden part and check again; include the frame in the check.",
    ),
}

RULES: dict[str, tuple[str, str]] = {}
"""Rules of axe and of eslint-plugin-jsx-a11y: the topic, and the criteria with blanks between."""


def _rules(topic: str, criteria: str, names: str) -> None:
    RULES.update(dict.fromkeys(names.split(), (topic, criteria)))


_rules("image", "1.1.1", "image-alt role-img-alt svg-img-alt object-alt alt-text accessible-emoji")
_rules("image", "1.1.1 4.1.2", "input-image-alt")
_rules("image", "2.4.4 4.1.2", "area-alt")
_rules("image", "", "image-redundant-alt img-redundant-alt")
_rules(
    "name",
    "4.1.2",
    "button-name input-button-name aria-command-name aria-toggle-field-name aria-tab-name aria-tooltip-name summary-name",
)
_rules("name", "", "aria-dialog-name aria-treeitem-name")
_rules("name", "1.1.1", "aria-meter-name aria-progressbar-name")
_rules("name", "2.4.4 4.1.2", "link-name anchor-has-content")
_rules("name", "1.3.1 3.3.2 4.1.2", "control-has-associated-label")
_rules("field", "4.1.2", "label select-name aria-input-field-name")
_rules("field", "3.3.2", "form-field-multiple-labels")
_rules("field", "", "label-title-only")
_rules("field", "1.3.1 3.3.2 4.1.2", "label-has-associated-control label-has-for")
_rules("name-differs", "2.5.3", "label-content-name-mismatch")
_rules("contrast", "1.4.3", "color-contrast")
_rules("contrast", "1.4.6", "color-contrast-enhanced")
_rules("colour", "1.4.1", "link-in-text-block")
_rules("language", "3.1.1", "html-has-lang html-lang-valid html-xml-lang-mismatch lang")
_rules("language-part", "3.1.2", "valid-lang")
_rules("title", "2.4.2", "document-title")
_rules("frame", "4.1.2", "frame-title frame-title-unique")
_rules("frame", "2.4.1 4.1.2", "iframe-has-title")
_rules("heading", "", "empty-heading heading-order page-has-heading-one")
_rules("heading", "1.3.1", "p-as-heading")
_rules("heading", "2.4.6", "heading-has-content")
_rules("landmark", "2.4.1", "bypass")
_rules(
    "landmark",
    "",
    "region skip-link landmark-banner-is-top-level landmark-complementary-is-top-level landmark-contentinfo-is-top-level landmark-main-is-top-level landmark-no-duplicate-banner landmark-no-duplicate-contentinfo landmark-no-duplicate-main landmark-one-main landmark-unique",
)
_rules("list", "1.3.1", "list listitem dlitem definition-list")
_rules("table", "1.3.1", "td-has-header td-headers-attr th-has-data-cells table-fake-caption")
_rules("table", "", "empty-table-header scope-attr-valid table-duplicate-name")
_rules("table", "1.3.1 4.1.1", "scope")
_rules(
    "role",
    "4.1.2",
    "aria-roles aria-deprecated-role aria-roledescription aria-role no-interactive-element-to-noninteractive-role no-noninteractive-element-to-interactive-role",
)
_rules(
    "role",
    "",
    "aria-allowed-role presentation-role-conflict no-redundant-roles prefer-tag-over-role focus-order-semantics",
)
_rules(
    "aria",
    "4.1.2",
    "aria-allowed-attr aria-braille-equivalent aria-conditional-attr aria-prohibited-attr aria-valid-attr aria-valid-attr-value aria-props aria-proptypes aria-unsupported-elements role-supports-aria-props",
)
_rules("aria-needs", "4.1.2", "aria-required-attr role-has-required-aria-props")
_rules("aria-needs", "1.3.1", "aria-required-children aria-required-parent")
_rules("hidden-focus", "4.1.2", "aria-hidden-focus")
_rules("hidden-focus", "1.3.1 4.1.2", "aria-hidden-body")
_rules("hidden-focus", "", "aria-text no-aria-hidden-on-focusable")
_rules("ids", "4.1.1", "duplicate-id duplicate-id-active")
_rules("ids", "4.1.2", "duplicate-id-aria")
_rules(
    "keyboard",
    "2.1.1",
    "click-events-have-key-events mouse-events-have-key-events interactive-supports-focus frame-focusable-content server-side-image-map",
)
_rules("keyboard", "2.1.1 2.1.3", "scrollable-region-focusable")
_rules("keyboard", "4.1.2", "no-static-element-interactions no-noninteractive-element-interactions")
_rules("keyboard", "", "aria-activedescendant-has-tabindex")
_rules("focus-order", "2.4.3", "tabindex-no-positive")
_rules("focus-order", "2.1.1", "no-noninteractive-tabindex")
_rules("focus-order", "", "tabindex")
_rules("link", "2.1.1", "anchor-is-valid")
_rules("link-text", "2.4.9", "identical-links-same-purpose")
_rules("link-text", "", "anchor-ambiguous-text")
_rules("nested", "4.1.2", "nested-interactive")
_rules("captions", "1.2.2", "video-caption")
_rules("captions", "1.2.2 1.2.3", "media-has-caption")
_rules("sound", "1.2.1", "audio-caption")
_rules("sound", "1.4.2", "no-autoplay-audio")
_rules("moving", "2.2.2", "blink marquee no-distracting-elements")
_rules("zoom", "1.4.4", "meta-viewport")
_rules("zoom", "", "meta-viewport-large")
_rules("spacing", "1.4.12", "avoid-inline-spacing")
_rules("orientation", "1.3.4", "css-orientation-lock")
_rules("refresh", "2.2.1", "meta-refresh")
_rules("refresh", "2.2.4 3.2.5", "meta-refresh-no-exceptions")
_rules("autocomplete", "1.3.5", "autocomplete-valid")
_rules("target", "2.5.8", "target-size")
_rules("shortcut", "", "accesskeys no-access-key")
_rules("autofocus", "", "no-autofocus")
_rules("change", "3.2.2", "no-onchange")
_rules("untested", "", "frame-tested hidden-content")

TECHNIQUES: tuple[tuple[str, str], ...] = (
    (r"1_1_1\..*", "image"),
    (r"1_2_2\..*", "captions"),
    (r"1_2_1\..*", "sound"),
    (r"1_3_1\.(F68|H44|H65|H71|ARIA6|ARIA16|ARIA9)\b.*", "field"),
    (r"1_3_1\.(H42|G141|H69)\b.*", "heading"),
    (r"1_3_1\.(H43|H63|H39|H73|F46|F49)\b.*", "table"),
    (r"1_3_1\.H48\b.*", "list"),
    (r"1_3_1\.(F92)\b.*", "role"),
    (r"1_3_4\..*", "orientation"),
    (r"1_3_5\..*", "autocomplete"),
    (r"1_4_1\..*", "colour"),
    (r"1_4_2\..*", "sound"),
    (r"1_4_(3|6|11)\..*", "contrast"),
    (r"1_4_4\..*", "zoom"),
    (r"1_4_12\..*", "spacing"),
    (r"2_1_1\..*", "keyboard"),
    (r"2_2_1\..*", "refresh"),
    (r"2_2_2\..*", "moving"),
    (r"2_4_1\.H64\b.*", "frame"),
    (r"2_4_1\..*", "landmark"),
    (r"2_4_2\..*", "title"),
    (r"2_4_3\..*", "focus-order"),
    (r"2_4_(4|9)\..*", "link-text"),
    (r"2_4_6\..*", "heading"),
    (r"2_5_3\..*", "name-differs"),
    (r"2_5_[58]\..*", "target"),
    (r"3_1_1\..*", "language"),
    (r"3_1_2\..*", "language-part"),
    (r"3_2_[125]\..*", "change"),
    (r"3_3_2\..*", "field"),
    (r"4_1_1\..*", "ids"),
    (r"4_1_2\.H91\.(Input|Select|Textarea).*", "field"),
    (r"4_1_2\.H91\.A\.(NoHref|Placeholder|Empty).*", "link"),
    (r"4_1_2\.H64\b.*", "frame"),
    (r"4_1_2\..*", "name"),
)
"""The codes of pa11y's own runner, from the criterion on, and the topics."""
