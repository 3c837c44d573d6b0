"""The error codes of tsc: a title, the meaning, and the repair."""

# ruff: noqa: E501 - sentences
CODES: dict[int, tuple[str, str, str]] = {
    # -- syntax
    1002: (
        "A text without its closing quote",
        "A text in quotes ends on its own line.",
        "Close the quote; use a template with backticks for a text of several lines.",
    ),
    1003: (
        "A name is missing",
        "The parser needs a name here and found something else.",
        "Look one token further to the left: a `.` too many, a reserved word as a name, or a comma without a name are usual.",
    ),
    1005: (
        "A character or word is missing",
        "The parser needs the token that the message names. What is really wrong often stands just before.",
        "Look at the end of the line before; count brackets. If many such errors follow, repair the first one alone and compile again.",
    ),
    1109: (
        "An expression is missing",
        "An operator, a `=`, a `(` or a `return` has nothing behind it that yields a value.",
        "Complete it; two operators in a row and a trailing comma in a call's wrong place are usual.",
    ),
    1117: (
        "The same property twice in one object",
        "The later one would silently win.",
        "Take one out, or give it another name.",
    ),
    1128: (
        "A statement is missing",
        "The parser is at a place where only statements stand, and found something else: mostly a bracket too many.",
        "Count the brackets above this place; an editor's formatter shows where they stop to fit.",
    ),
    1155: (
        "`const` without a value",
        "A `const` never changes, so it gets its value where it is declared.",
        "Give it a value, or use `let`.",
    ),
    1161: (
        "A regular expression without its end",
        "A `/` begins one where an expression stands; in JSX a stray `/` or `<` does so too.",
        "Close it with `/`, or close the JSX element before it.",
    ),
    1185: (
        "The mark of a merge conflict",
        "`<<<<<<<`, `=======` or `>>>>>>>` of git stands in the file.",
        "Decide which side holds, and take the marks out.",
    ),
    1192: (
        "The module has no default export",
        "`import x from` takes what the module exports as `default`, and there is none.",
        "Use `import { x } from` for a named export, or `import * as x from` for all of them.",
    ),
    1205: (
        "A type is exported again without `type`",
        "A compiler that sees one file at a time cannot know that the name is a type, and would leave an export of nothing.",
        "Write `export type { Name } from './file'`.",
    ),
    1208: (
        "A file that is no module",
        "With `isolatedModules` each file needs an import or an export.",
        "Export something, or add `export {}`.",
    ),
    1240: (
        "A decorator that does not fit a property",
        "The decorator is a function of other parameters than it is called with. There are two kinds of decorators: those of `experimentalDecorators` and those of the standard.",
        "Compare the decorator's library with `experimentalDecorators` in tsconfig.json: old libraries need `true`, standard decorators need it off.",
    ),
    1241: (
        "A decorator that does not fit a method",
        "The decorator is a function of other parameters than it is called with. There are two kinds of decorators: those of `experimentalDecorators` and those of the standard.",
        "Compare the decorator's library with `experimentalDecorators` in tsconfig.json: old libraries need `true`, standard decorators need it off.",
    ),
    1259: (
        "A default import of a module that has none",
        "The module is CommonJS (`export =`). A default import of it needs `esModuleInterop`.",
        "Set `\"esModuleInterop\": true`, or write `import x = require('module')`, or `import * as x from 'module'`.",
    ),
    1261: (
        "Two spellings of one file's name",
        "Two imports differ in upper and lower case. That works on some file systems only.",
        "Spell the import as the file is called; after a rename that changed only the case, restart the editor's language server.",
    ),
    1286: (
        "`import` in a file that is CommonJS",
        "With `verbatimModuleSyntax` an `import` stays an `import`, and this file is to be CommonJS.",
        'Set `"type": "module"` in package.json, call the file `.mts`, or write `import x = require(\'x\')`.',
    ),
    1294: (
        "Syntax that is more than types",
        "With `erasableSyntaxOnly` taking the types out must leave JavaScript: enums, namespaces with code and parameter properties do not.",
        "Use an object `as const` in place of an enum; declare and assign fields in place of parameter properties.",
    ),
    1308: (
        "`await` outside of an `async` function",
        "The innermost function around it is not `async`. A callback is a function of its own.",
        "Make that function `async`. `forEach` does not wait for async callbacks: use `for … of`, or `await Promise.all(items.map(…))`.",
    ),
    1343: (
        "`import.meta` without ES modules",
        "The option `module` makes modules that do not have it.",
        "Set `module` to `nodenext`, `esnext` or `preserve`, as what runs the code needs it.",
    ),
    1360: (
        "`satisfies` does not hold",
        "The value does not have the type that stands behind `satisfies`.",
        "Read the reasons below from the last one up; correct the value, or the type.",
    ),
    1361: (
        "A value that was imported as a type",
        "`import type` vanishes when the code is compiled, so nothing of it can be used when the code runs.",
        "Take the word `type` out of the import.",
    ),
    1378: (
        "`await` at the top of a file",
        "It needs ES modules and a target that has it.",
        "Set `module` to `esnext`, `nodenext` or `preserve` and `target` to `es2017` or later, or wrap the code in an `async` function.",
    ),
    1375: (
        "`await` at the top of a file that is no module",
        "A file without an import or an export is a script, and scripts do not have it.",
        "Add `export {}`.",
    ),
    1434: (
        "A word that the parser does not expect",
        "Mostly a misspelt keyword, or a keyword of another language, in front of what could be right.",
        "Correct the word; compare with a line nearby that compiles.",
    ),
    1470: (
        "`import.meta` in a file that becomes CommonJS",
        "The nearest package.json makes this file CommonJS, which has no `import.meta`.",
        'Set `"type": "module"` there, call the file `.mts`, or use `__filename` and `__dirname`.',
    ),
    1479: (
        "A CommonJS file imports an ES module",
        "The import would become `require`, which cannot load that module.",
        'Set `"type": "module"` in the nearest package.json, call the file `.mts`, or load it with `await import(\'module\')`.',
    ),
    1484: (
        "A type is imported as a value",
        "With `verbatimModuleSyntax` an import stays as it is written, and the type would be missing when the code runs.",
        "Write `import type { Name } from`, or `import { type Name } from`.",
    ),
    1543: (
        "A JSON import without its attribute",
        "ES modules of Node load JSON only where the import says so.",
        "Write `import data from './x.json' with { type: 'json' }`.",
    ),
    # -- names and modules
    2300: (
        "One name is declared twice",
        "Two declarations of the name meet in one scope. Files without import and export share one scope, and so do two versions of one `@types` package.",
        "Rename one, or add `export {}` to make the file a module; if both places are in `node_modules`, see `npm ls` for the package that is there twice.",
    ),
    2304: (
        "A name that is not declared",
        "Nothing of that name is in reach: it is misspelt, not imported, or a global whose types are not loaded.",
        "Correct or import it. For globals add the types (`npm i --save-dev @types/node`), or `lib` in tsconfig.json.",
    ),
    2305: (
        "The module does not export that name",
        "The file exists, and exports other names.",
        "Look at what it exports. After an upgrade the name may have moved; a type of a package may stand in another of its paths.",
    ),
    2306: (
        "The file is no module",
        "It has neither an import nor an export, so nothing can be imported from it.",
        "Export something there. An empty or commented-out file gives the same error.",
    ),
    2307: (
        "A module that cannot be found",
        "Neither the module nor its types are where the compiler looks.",
        "Check the path and its case. For a package: install it, and let `moduleResolution` be `bundler` or `nodenext` if it has `exports`. For an alias: set `paths` in tsconfig.json. For a file that is no code: declare it, `declare module '*.svg'`.",
    ),
    2314: (
        "A generic type without its arguments",
        "The type takes type arguments, and another number of them is written.",
        "Write them: `Array<string>`, `Promise<void>`. After an upgrade of `@types` the number may have changed.",
    ),
    2315: (
        "Type arguments for a type that takes none",
        "The type is not generic.",
        "Take the arguments out; see whether an import of the same name from another package is meant.",
    ),
    2318: (
        "A basic type of the language is missing",
        "The compiler knows not even `Array` or `Promise`: `lib` is wrong, or `noLib` is set.",
        'Set `lib` to what the target has, such as `["es2022", "dom"]`, or take `lib` out.',
    ),
    2320: (
        "An interface extends two that disagree",
        "Both have a member of this name, with different types.",
        "Declare the member in the interface itself with a type that fits both, or take one with `Omit<A, 'name'>`.",
    ),
    # -- what fits what
    2322: (
        "A value of another type than its place asks for",
        "The type of the value on the right cannot stand where the type on the left is declared.",
        "Read the reasons from the last one up: it names the innermost type that differs. Then correct the value, or widen the declared type if it is too narrow.",
    ),
    2339: (
        "A property that the type does not have",
        "The declared type knows no such property, whatever the value has when the code runs.",
        "Correct the name, declare the property in the type, or narrow the type first: `if ('x' in v)`, `instanceof`, a check of a common field.",
    ),
    2341: (
        "A private member is used from outside",
        "`private` members belong to their class alone.",
        "Use what the class offers publicly, or make the member public.",
    ),
    2344: (
        "A type argument that breaks its constraint",
        "The parameter says `extends …`, and the argument does not have what stands there.",
        "Pass a type that has it, or constrain your own parameter in the same way: `<T extends object>`.",
    ),
    2345: (
        "An argument of another type than the parameter",
        "The function declares the parameter with a type that the value does not have.",
        "Read the reasons from the last one up. Convert or narrow the value before the call, or widen the parameter if the function can take more.",
    ),
    2347: (
        "Type arguments for a function that has no types",
        "The function is `any`, mostly because its module has no types.",
        "Install its types, or take the type arguments out and annotate the result.",
    ),
    2349: (
        "Something is called that is no function",
        "The type has no signature to call. Of a union each member needs one, and they must fit together.",
        "Take the `()` out for a property; narrow a union first; after a default import of CommonJS see whether `.default` is meant.",
    ),
    2351: (
        "`new` on what is no class",
        "The type has no constructor.",
        "Call it without `new`, or import the class: a default import of a CommonJS module may be the module itself.",
    ),
    2352: (
        "A conversion between types that do not overlap",
        "`as` goes between types of which one holds the other. These two do not.",
        "See whether the value is what you think. Parse and check data from outside; `as unknown as T` silences the compiler and proves nothing.",
    ),
    2353: (
        "An object with a property that its type does not have",
        "Written directly into its place, an object may have declared properties only, so that spelling errors are found.",
        "Correct the name, or add the property to the type. After an upgrade the option may have another name.",
    ),
    2355: (
        "A function that returns nothing, declared with a result",
        "The body has no `return` with a value.",
        "Return a value, or declare `void`.",
    ),
    2362: (
        "Arithmetic with what is no number, on the left",
        "`-`, `*`, `/` and `%` take `number`, `bigint` or an enum.",
        "Convert it: `Number(text)`, `date.getTime()`; check that a text is one first.",
    ),
    2363: (
        "Arithmetic with what is no number, on the right",
        "`-`, `*`, `/` and `%` take `number`, `bigint` or an enum.",
        "Convert it: `Number(text)`, `date.getTime()`; check that a text is one first.",
    ),
    2365: (
        "An operator between types that it does not take",
        "These two types cannot be compared or added.",
        "Convert one of the two so that both have one type; check for `undefined` first.",
    ),
    2366: (
        "A way through the function that returns nothing",
        "Some branch reaches the end of the function, and the declared type does not include `undefined`.",
        "Return or throw at the end. In a `switch` over a union add `default`, or `const left: never = value` to have new cases found.",
    ),
    2367: (
        "A comparison that can never hold",
        "The two types have no value in common: often a misspelt literal, or the value was narrowed above.",
        "Correct the literal. If the value changes in a call between, the compiler does not see that: read it into a variable of its declared type.",
    ),
    2375: (
        "`undefined` for a property that may be left out",
        "With `exactOptionalPropertyTypes` a property with `?` may be absent, and may not be `undefined`.",
        "Leave the property out (`...(x !== undefined && { x })`), or declare `x?: T | undefined`.",
    ),
    2377: (
        "A constructor of a subclass without `super`",
        "The base class must be constructed before `this` exists.",
        "Call `super(…)` first.",
    ),
    2379: (
        "`undefined` in an argument, for a property that may be left out",
        "With `exactOptionalPropertyTypes` a property with `?` may be absent, and may not be `undefined`.",
        "Leave the property out (`...(x !== undefined && { x })`), or declare `x?: T | undefined`.",
    ),
    2391: (
        "A function without a body",
        "A signature without a body is an overload, and its body must follow at once.",
        "Write the body, or `declare` or `abstract` if there is to be none.",
    ),
    2393: (
        "Two bodies of one function",
        "JavaScript would keep the later one. Files without import and export share one scope.",
        "Rename one, or add `export {}` to make the file a module.",
    ),
    2394: (
        "An overload that the body does not cover",
        "The body's own signature must take all that the overloads take, and return all that they return.",
        "Widen the signature of the body.",
    ),
    2403: (
        "One `var` declared with two types",
        "Declarations of the same variable must agree. Two packages may declare the same global.",
        "Rename one; if both are in `node_modules`, restrict `types` in tsconfig.json.",
    ),
    2411: (
        "A property that does not fit the index signature",
        "`[key: string]: T` holds for every property, the named ones too.",
        "Widen the index signature to include this type, or keep the free entries in a property of their own.",
    ),
    2415: (
        "A subclass that is no such class",
        "A member has another type, or another visibility, than in the base class.",
        "Take over the base class's declaration, or give the member another name.",
    ),
    2416: (
        "A member that differs from its base type's",
        "Who has the base type would call it in a way that this member does not take.",
        "Take over the parameters and the result of the base; parameters may be wider, results narrower.",
    ),
    2420: (
        "A class without all of its interface",
        "A member of the interface is missing, or has another type, or is not public.",
        "Write the members that are named. Optional ones need `?` in the interface.",
    ),
    2430: (
        "An interface that contradicts what it extends",
        "A member has a type that does not fit the base's.",
        "Narrow the member's type to one that fits, or extend `Omit<Base, 'member'>`.",
    ),
    2440: (
        "An import and a declaration of one name",
        "",
        "Rename one: `import { x as otherX } from`.",
    ),
    2448: (
        "A variable is used above its declaration",
        "`let`, `const` and classes exist from their declaration on.",
        "Move the declaration up, or the use into a function that is called later.",
    ),
    2451: (
        "One `let` or `const` declared twice",
        "Files without import and export share one scope, so another file may have the name too.",
        "Rename one, or add `export {}` to make the file a module.",
    ),
    2454: (
        "A variable is read before it has a value",
        "On some way to this place nothing was assigned.",
        "Give it a value where it is declared, or in each branch; in closures the compiler cannot see the order.",
    ),
    2459: (
        "The module keeps that name to itself",
        "The name is declared there, and not exported.",
        "Export it there, or import it from where it comes from.",
    ),
    2488: (
        "Something is iterated that cannot be",
        "`for … of`, spread and array patterns need an iterator: arrays, strings, maps and sets have one, objects have none, and `undefined` neither.",
        "Use `Object.entries(object)`; check for `undefined` first; a hook that returns an object is taken apart with `{ }`.",
    ),
    2503: (
        "A namespace that is not declared",
        "The name before the `.` is no namespace in reach.",
        "Import it (`import type React from 'react'`), or install the types; `JSX` stands in `React.JSX` since React 19.",
    ),
    2511: (
        "`new` on an abstract class",
        "It has parts without a body.",
        "Make an instance of a subclass.",
    ),
    2515: (
        "A class without the abstract members of its base",
        "",
        "Write the members that are named, or make the class `abstract` too.",
    ),
    # -- null and undefined
    2531: (
        "The object may be null",
        "With `strictNullChecks` a value that may be `null` is checked before it is used.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`. `x!` silences the compiler and fails when the code runs.",
    ),
    2532: (
        "The object may be undefined",
        "With `strictNullChecks` a value that may be `undefined` is checked before it is used. `find`, `Map.get`, optional properties and, with `noUncheckedIndexedAccess`, every index yield such values.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`. Keep a checked value in a `const`: a check does not hold within callbacks.",
    ),
    2533: (
        "The object may be null or undefined",
        "With `strictNullChecks` it is checked before it is used.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`.",
    ),
    2536: (
        "A type that is no key of that type",
        "`T[K]` needs a `K` of which the compiler knows that it is a key.",
        "Constrain it: `K extends keyof T`.",
    ),
    2538: (
        "A type that cannot be an index",
        "Keys are texts, numbers and symbols; `undefined`, objects and booleans are none.",
        "Check for `undefined` first, or convert with `String(x)`.",
    ),
    2540: (
        "A write to what is read-only",
        "The property is `readonly`, or the object is a `const` assertion or an import.",
        "Make a changed copy: `{ ...old, x: 1 }`. `ref.current` is read-only where `useRef` was called with `null` and a type without `null`.",
    ),
    2551: (
        "A property that the type does not have, and a similar one",
        "It is most likely misspelt.",
        "Take the name that the message proposes, if it is what you mean. Newer methods need a newer `lib` or `target`.",
    ),
    2552: (
        "A name that is not declared, and a similar one",
        "It is most likely misspelt.",
        "Take the name that the message proposes, if it is what you mean; else declare or import yours.",
    ),
    2554: (
        "A call with the wrong number of arguments",
        "The function declares another number of parameters.",
        "Compare with its declaration. `new Promise<void>(resolve => resolve())` needs the type argument; `useRef` of React 19 needs an argument.",
    ),
    2555: (
        "A call with too few arguments",
        "The function needs at least so many.",
        "Compare with its declaration.",
    ),
    2556: (
        "Spread arguments of unknown number",
        "An array may have any length, and the function takes a fixed number of parameters.",
        "Give the array a tuple type (`as const`, or `Parameters<typeof f>`), or name the arguments.",
    ),
    2559: (
        "A value with nothing in common with the type",
        "All properties of the type are optional, and the value has none of them: so it is most likely a mistake.",
        "See whether a function must be called first, or whether the value stands one level too deep or too high.",
    ),
    2564: (
        "A field without a value",
        "With `strictPropertyInitialization` each field has a value when the constructor ends.",
        "Give it a value, declare it optional (`x?: T`), or write `x!: T` where a framework fills it in.",
    ),
    2571: (
        "A value of unknown type is used",
        "`unknown` may be anything, so it must be checked first. What `catch` catches is such.",
        "Narrow it: `if (e instanceof Error)`, `typeof x === 'string'`, or a parser that returns a type.",
    ),
    2578: (
        "`@ts-expect-error` without an error",
        "The line below has no error any more.",
        "Take the comment out.",
    ),
    2582: (
        "A test's global without types",
        "`describe`, `it` and `expect` come from a test runner whose types are not loaded.",
        "Import them from the runner (`import { expect, it } from 'vitest'`), or install its types and list them in `types`.",
    ),
    2583: (
        "A global of a newer language",
        "`lib` or `target` is older than this name.",
        "Set `lib` or `target` to what the message names, if what runs the code has it.",
    ),
    2584: (
        "A global of the browser",
        "`document` and `window` are in the library `dom`, which is not loaded.",
        'Add `"dom"` to `lib`, in a project for the browser.',
    ),
    2589: (
        "A type without end, or nearly",
        "Working the type out took too many steps: a recursive type, or a very general one.",
        "Annotate in between, with simpler types; bound the recursion; see whether two versions of one package meet.",
    ),
    2590: (
        "A union of too many members",
        "Unions that are combined multiply.",
        "Annotate with a wider type such as `string`, or combine fewer.",
    ),
    2591: (
        "A global of Node without types",
        "`process`, `Buffer`, `require` and `__dirname` are in `@types/node`, which is not loaded.",
        '`npm i --save-dev @types/node`, and add `"node"` to `types` in tsconfig.json. In code for the browser use what the bundler offers, such as `import.meta.env`.',
    ),
    2593: (
        "A test's global without types",
        "`describe`, `it` and `expect` come from a test runner whose types are not loaded.",
        "Import them from the runner (`import { expect, it } from 'vitest'`), or add its types to `types` in tsconfig.json.",
    ),
    2604: (
        "An element of JSX that is no component",
        "The name in the tag is neither a function nor a class of a component.",
        "See what is imported: a default in place of a named export is usual; a variable with a component needs a capital letter.",
    ),
    2613: (
        "A default import where there are named exports",
        "The module exports the name, but not as `default`.",
        "Put it in braces: `import { Name } from`.",
    ),
    2614: (
        "A named import where there is a default export",
        "The module has no export of this name, but a default one.",
        "Write it without braces: `import Name from`. For files such as `.vue` the name may come from their declaration.",
    ),
    2683: (
        "`this` without a type",
        "A `function` has a `this` of its own, which depends on how it is called.",
        "Use an arrow function, or declare it as the first parameter: `function f(this: Type)`.",
    ),
    2686: (
        "React is used as a global",
        "The old way to compile JSX needs `React` in each file.",
        'Set `"jsx": "react-jsx"` in tsconfig.json, or import React.',
    ),
    2688: (
        "Types that are listed and not there",
        "`types`, or a package that needs them, names types that are not installed. Without `types`, each folder in `node_modules/@types` counts.",
        "Install them, or take the name out of `types`; a broken folder in `node_modules/@types` goes with a fresh install.",
    ),
    2693: (
        "A type is used as a value",
        "Types and interfaces do not exist when the code runs.",
        "Use a class, an enum or a constant, or a check by a field. `new Map<K, V>()`, not `Map<K, V>`.",
    ),
    2698: (
        "A spread of what is no object",
        "`...x` takes objects.",
        "Constrain a generic with `T extends object`; check `unknown` first.",
    ),
    2709: (
        "A namespace is used as a type",
        "The import is a whole module, and a type within is meant.",
        "Name the type: `import type { Name } from`, or `typeof Module`.",
    ),
    2717: (
        "Two declarations of a property disagree",
        "The interface is declared in several places, with different types for it; two versions of one `@types` package do that.",
        "Make them agree; see `npm ls` for the package that is there twice.",
    ),
    2719: (
        "Two different types of the same name",
        "They come from two places: two copies of a package, or two declarations.",
        "See `npm ls PACKAGE`, and bring all to one version; import the type from one place.",
    ),
    2722: (
        "A function that may be undefined is called",
        "An optional callback may be absent.",
        "Call it with `f?.()`, or check first.",
    ),
    2724: (
        "The module does not export that name, but a similar one",
        "",
        "Take the name that the message proposes, if it is what you mean; after an upgrade see what was renamed.",
    ),
    2732: (
        "A JSON file is imported",
        "The compiler reads JSON only if it may.",
        'Set `"resolveJsonModule": true`.',
    ),
    2739: (
        "An object without properties that are required",
        "The type asks for them, and the value does not have them.",
        "Add them, make them optional in the type, or ask for a part only: `Partial<T>`, `Pick<T, 'a'>`. An array or a Promise here means that its content is meant.",
    ),
    2740: (
        "An object without many properties that are required",
        "So many missing properties mostly mean that quite another type is meant.",
        "See whether the value is a Promise (`await` it), an array of it (take one), a plain object in place of a class's instance, or an element where a ref is meant.",
    ),
    2741: (
        "An object without a property that is required",
        "The type asks for it, and the value does not have it.",
        "Add it, or make it optional in the type: `x?: T`. In JSX it is a prop that the element lacks.",
    ),
    2742: (
        "A type that cannot be written down without an inner path",
        "The declaration file would have to import from a place that others do not have, such as a nested `node_modules`.",
        "Annotate the export with a type that you can import, or install that package directly.",
    ),
    2749: (
        "A value is used as a type",
        "The name is a variable or a function.",
        "Write `typeof name`, or `InstanceType<typeof Class>`; a component's props are `ComponentProps<typeof C>`. In a `.ts` file JSX is read as types: call it `.tsx`.",
    ),
    2769: (
        "No signature fits the call",
        "The function has several, and the arguments fit none. The reasons below go through them; the last is mostly the one that is meant.",
        "Find the signature you mean, and correct the argument that it complains about.",
    ),
    2774: (
        "A function is tested in place of its result",
        "A function is always true.",
        "Call it: `if (isReady())`.",
    ),
    2775: (
        "An assertion function without a type",
        "The compiler follows `asserts` only where the function's name is declared with its type.",
        "Declare it as a `function`, or annotate the constant that holds it.",
    ),
    2783: (
        "A property that a spread behind it overwrites",
        "",
        "Put the spread first, or take the property out.",
    ),
    2786: (
        "A component that yields no element",
        "Its result, or its type, is not what JSX takes. Two versions of `@types/react` in the tree give this error for every component.",
        "Return an element or `null`; a component that is `async` works on the server only; see `npm ls @types/react`.",
    ),
    2790: (
        "`delete` on a property that is required",
        "The object would no longer have its type.",
        "Make the property optional, or make a copy without it: `const { x, ...rest } = object`.",
    ),
    2792: (
        "A module that cannot be found in the old way",
        "`moduleResolution` is one that does not look into `node_modules`, or not as Node does.",
        'Set `"moduleResolution": "bundler"` or `"nodenext"`.',
    ),
    2802: (
        "An iteration that the target does not have",
        "For an old target, sets and maps cannot be iterated directly.",
        "Set `target` to `es2015` or later, or use `Array.from(x)`.",
    ),
    2834: (
        "A relative import without its extension",
        "ES modules of Node name the whole file.",
        "Write `./file.js`, also where the source is `file.ts`; a bundler's project sets `moduleResolution` to `bundler`.",
    ),
    2835: (
        "A relative import without its extension",
        "ES modules of Node name the whole file.",
        "Write what the message proposes, also where the source is `.ts`; a bundler's project sets `moduleResolution` to `bundler`.",
    ),
    2839: (
        "Two objects are compared that are never the same",
        "`===` asks whether both are one object, and a new one never is.",
        "Compare what is in them: lengths, fields, ids.",
    ),
    # -- declarations
    4023: (
        "An exported variable whose type nobody can name",
        "The declaration file would need a type that is not exported.",
        "Export that type where it is declared, or annotate the variable.",
    ),
    4058: (
        "An exported function whose result nobody can name",
        "The declaration file would need a type that is not exported.",
        "Export that type where it is declared, or annotate the result.",
    ),
    4104: (
        "A read-only array for one that may be changed",
        "The receiver could change it.",
        "Declare the receiver `readonly T[]`, or pass a copy: `[...array]`.",
    ),
    4111: (
        "An undeclared key by a dot",
        "With `noPropertyAccessFromIndexSignature` keys of an index signature are written in brackets.",
        "Write `object['key']`, or declare the property.",
    ),
    4114: (
        "An overriding member without `override`",
        "With `noImplicitOverride` it must say so.",
        "Write `override` before it.",
    ),
    # -- the compiler's options
    5023: (
        "An option that the compiler does not know",
        "",
        "Correct its name; it belongs into `compilerOptions`; an older compiler may be in `node_modules`.",
    ),
    5055: (
        "An output would overwrite a source",
        "The compiler also takes its own output, or JavaScript, for sources.",
        "Set `outDir`, and leave it out by `exclude`; `noEmit` where a bundler writes the code.",
    ),
    5083: (
        "A configuration that cannot be read",
        "`extends` or `references` names a file that is not there.",
        "Correct the path; install the package that holds the base configuration.",
    ),
    5090: (
        "A path without `./` in `paths`",
        "Without `baseUrl` paths start from tsconfig.json and say so.",
        "Write `./src/*` in place of `src/*`.",
    ),
    5095: (
        "An option that does not go with this `module`",
        "`bundler` resolves modules of ES or of `preserve` only.",
        "Set `module` to `esnext` or `preserve`.",
    ),
    5097: (
        "An import that ends in `.ts`",
        "The output would import a file that is not there.",
        "Write `.js`, or set `allowImportingTsExtensions` with `noEmit`, or `rewriteRelativeImportExtensions`.",
    ),
    5101: (
        "An option that goes away",
        "A later compiler will refuse it.",
        "Take it out, or replace it as its documentation says; `ignoreDeprecations` silences this for a time.",
    ),
    5107: (
        "A value of an option that goes away",
        "A later compiler will refuse it.",
        "Set a newer value; `ignoreDeprecations` silences this for a time.",
    ),
    5102: (
        "An option that is gone",
        "This compiler does not have it any more.",
        "Take it out; what it did is now usual, or another option does it.",
    ),
    5110: (
        "`module` does not go with `moduleResolution`",
        "The modules of Node are written and resolved in one way.",
        "Set both to `nodenext`, or leave `moduleResolution` out.",
    ),
    6053: (
        "A file that is listed and not there",
        "`files`, a `/// <reference>` or the command line names it.",
        "Correct the path, or take it out; generated files must be generated first.",
    ),
    6059: (
        "A source outside of `rootDir`",
        "An import leads out of it, or `include` takes more.",
        "Set `rootDir` to the folder that holds all, or `include` to less; across packages use `references`.",
    ),
    6305: (
        "A project that is not built yet",
        "With `references` the compiler reads the declarations of the other project, and they are missing or old.",
        "Run `tsc --build`.",
    ),
    6306: (
        "A referenced project that is not `composite`",
        "",
        'Set `"composite": true` there.',
    ),
    6307: (
        "A file that the project does not list",
        "A `composite` project names all its files.",
        "Add it to `include`, or reference the project that has it.",
    ),
    6310: (
        "A referenced project that writes nothing",
        "Its declarations are needed, and `noEmit` keeps them back.",
        "Use `emitDeclarationOnly` there.",
    ),
    6133: (
        "Something is declared and never read",
        "`noUnusedLocals` or `noUnusedParameters` asks for it.",
        "Take it out. A parameter that must stand there begins with `_`.",
    ),
    6138: (
        "A private field is never read",
        "`noUnusedLocals` asks for it.",
        "Take it out.",
    ),
    6192: ("Nothing of an import is used", "", "Take the import out."),
    6196: (
        "A type is declared and never used",
        "`noUnusedLocals` asks for it.",
        "Take it out, or export it.",
    ),
    6198: ("Nothing of a pattern is used", "", "Take the pattern out."),
    # -- implicit any
    7005: (
        "A variable without a type",
        "Nothing tells its type, so it would be `any`.",
        "Annotate it, or give it a value.",
    ),
    7006: (
        "A parameter without a type",
        "`noImplicitAny` asks for one. A callback gets its types from where it is passed; a function that stands alone does not.",
        "Annotate it: `(event: MouseEvent)`. If the callback should have known, what it is passed to has no types.",
    ),
    7008: ("A member without a type", "Nothing tells its type.", "Annotate it."),
    7010: ("A function without the type of its result", "", "Annotate the result."),
    7015: (
        "An array is indexed by what is no number",
        "",
        "Use a number; for names use an object or a `Map`.",
    ),
    7016: (
        "A module without types",
        "The module is there in JavaScript, and nobody has declared its types.",
        "Install its types, or declare it: a file `types.d.ts` with `declare module 'name';`.",
    ),
    7017: (
        "A key that the type does not have",
        "",
        "Declare the key, or an index signature. Of `globalThis`: `declare global { var name: Type }`.",
    ),
    7018: (
        "A property without a type",
        "`null`, `undefined` or `[]` tell nothing.",
        "Annotate the object.",
    ),
    7019: ("A rest parameter without a type", "", "Annotate it: `...rest: string[]`."),
    7022: (
        "A value that depends on its own type",
        "To work out the type the compiler needs the type.",
        "Annotate it; that breaks the circle.",
    ),
    7023: (
        "A function whose result depends on itself",
        "To work out the result's type the compiler needs it.",
        "Annotate the result; that breaks the circle.",
    ),
    7026: (
        "JSX without types",
        "No types for elements are loaded.",
        "Install the framework's types (`@types/react`), and set `jsx` and `jsxImportSource` as it asks.",
    ),
    7027: (
        "Code that is never reached",
        "It stands behind a `return`, a `throw` or a loop without end.",
        "Take it out, or correct what stands above.",
    ),
    7029: (
        "A `case` that runs into the next",
        "",
        "End it with `break` or `return`.",
    ),
    7030: (
        "Some ways return a value, others do not",
        "`noImplicitReturns` asks for all or none.",
        "Return on every way; `return undefined` where nothing is meant. An effect of React returns its cleanup on every way, or nowhere.",
    ),
    7031: (
        "A name in a pattern without a type",
        "A pattern as a parameter tells no types.",
        "Annotate the whole pattern: `({ a, b }: Props)`.",
    ),
    7034: (
        "A variable whose type is not clear everywhere",
        "It begins as `[]` or without a value, and is read in a function before the compiler knows more.",
        "Annotate it: `const list: string[] = []`.",
    ),
    7053: (
        "A key of which the type knows nothing",
        "A text may be any key, and the type has certain ones.",
        "Let the key have the type `keyof typeof object`, the object the type `Record<string, T>`, or check `key in object` first. `Object.keys` returns `string[]`.",
    ),
    # -- JavaScript, JSX, configuration
    8010: (
        "A type in a JavaScript file",
        "",
        "Call the file `.ts`, or write the type as JSDoc: `/** @type {string} */`.",
    ),
    9007: (
        "An exported function without the type of its result",
        "With `isolatedDeclarations` declarations are made of one file alone.",
        "Annotate the result.",
    ),
    9010: (
        "An exported variable without a type",
        "With `isolatedDeclarations` declarations are made of one file alone.",
        "Annotate it.",
    ),
    17004: (
        "JSX without `jsx`",
        "The compiler must know what becomes of it.",
        'Set `"jsx": "react-jsx"`, or `"preserve"` where a bundler does it.',
    ),
    17008: (
        "An element of JSX without its end",
        "",
        "Close it: `</div>`, or `<img />`.",
    ),
    17009: (
        "`this` before `super`",
        "`this` exists once the base class is constructed.",
        "Call `super(…)` first.",
    ),
    18003: (
        "No source is found",
        "`include` and `files` match nothing that the compiler takes.",
        "Correct them: they start from tsconfig.json; JavaScript counts with `allowJs` only.",
    ),
    18004: (
        "A shorthand property without a variable",
        "`{ name }` takes the variable of that name, and there is none.",
        "Declare it, or write `name: value`.",
    ),
    18046: (
        "A value of unknown type is used",
        "`unknown` may be anything, so it must be checked first. What `catch` catches is such, and what `response.json()` yields in some libraries.",
        "Narrow it: `if (e instanceof Error)`, `typeof x === 'string'`, or a parser that returns a type.",
    ),
    18047: (
        "The value may be null",
        "With `strictNullChecks` a value that may be `null` is checked before it is used: `querySelector`, `getElementById` and `match` yield such.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`. `x!` silences the compiler and fails when the code runs.",
    ),
    18048: (
        "The value may be undefined",
        "With `strictNullChecks` a value that may be `undefined` is checked before it is used. `find`, `Map.get`, optional properties and, with `noUncheckedIndexedAccess`, every index yield such values.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`. Keep a checked value in a `const`: a check does not hold within callbacks.",
    ),
    18049: (
        "The value may be null or undefined",
        "With `strictNullChecks` it is checked before it is used.",
        "Check first: `if (x)`, `x?.y`, `x ?? default`.",
    ),
}
"""The codes that are explained."""

KINDS: tuple[tuple[int, int, str], ...] = (
    (1000, 1999, "the parser could not read the text as TypeScript, or a word stands where the language does not allow it; mostly the cause is at this place or just before it"),
    (2000, 3999, "the types do not fit, or a name does not mean what is needed here"),
    (4000, 4999, "a declaration file cannot be written for what is exported; a type annotation, or exporting the type that is missing, mostly helps"),
    (5000, 5999, "an option of the compiler, in tsconfig.json or on the command line, is wrong or does not go with another"),
    (6000, 6999, "it is about files and projects, or about declarations that nothing uses"),
    (7000, 7999, "a type cannot be worked out and would be `any`, or control flow is odd; an annotation mostly helps"),
    (8000, 8999, "a JavaScript file holds what only TypeScript has, or its JSDoc is wrong"),
    (9000, 9999, "with `isolatedDeclarations` an export needs a type that is written down"),
    (17000, 17999, "JSX, or the order of `super` and `this`"),
    (18000, 18999, "the configuration finds no files, or a value may be null, undefined or unknown, or a private name is misused"),
)  # fmt: skip
"""The topics of ranges of codes, for codes that are not explained."""
