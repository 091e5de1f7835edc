"use strict";
// The explorer of tod-bias. What comes from a run's data is put in by textContent alone.

const HEIGHT = 72; // of a row of the list, as in the style
const MOST_CELLS = 4e6; // of the table that two texts are compared with; longer ones are marked as a whole
const ALIKE = 0.4; // texts that share fewer of their words do so by chance, and are marked as a whole
const TOLERANCE = 0.01; // harm up to it is none, as in `tod-bias cases`
const FIELDS = ["axis", "dialogue", "variant", "turn", "source", "group", "term", "role", "system", "stage", "first",
  "ways", "original"];
const IS_CALL = /^[^\s=]+( ; [^\s=]+)? = | \| [^\s=]+ ; [^\s=]+ = /;
const $ = (id) => document.getElementById(id);
const runs = [];
const cases = new Set();
let run, shown = [], chosen = null, replaced = new Set();

function element(name, content = "", attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  if (Array.isArray(content)) made.append(...content.filter((part) => part !== null));
  else made.textContent = content;
  return made;
}

// ---- data --------------------------------------------------------------------------------------------------------

function load(number) {
  if (runs[number]) return runs[number];
  const data = JSON.parse(document.querySelectorAll("script.run")[number].textContent);
  const text = (index) => index < 0 ? "" : data.texts[index];
  data.turns = data.turns.map((row) => {
    const turn = { outcomes: row.slice(FIELDS.length) };
    FIELDS.forEach((name, place) => { turn[name] = row[place]; });
    for (const name of ["axis", "dialogue", "variant", "source", "group", "term", "role", "stage", "first"]) {
      turn[`${name}Text`] = text(turn[name]);
    }
    turn.groupText = turn.role && turn.roleText === "reference" ? `no group: ${turn.variantText}` : turn.groupText || turn.roleText;
    return turn;
  });
  data.text = text;
  data.metrics.filter((metric) => metric.scored).forEach((metric, place) => { metric.place = place + 1; });
  data.byPlace = new Map(data.turns.map((turn) => [link(data, turn), turn]));
  return runs[number] = data;
}

const link = (data, turn) => "#" + [data.name, turn.axisText, turn.dialogueText, turn.variantText, (turn.turn ?? 0) + 1]
  .map(encodeURIComponent).join("/");

function outcome(turn, key) {
  const way = run.ways[turn.ways][run.arms.indexOf(key)];
  return way === undefined || way < 0 ? null : turn.outcomes[way];
}

const armOf = (stages) => run.stages.filter((stage) => stages.has(stage)).sort().join(",");
const blind = (turn) => [...run.arms].reverse().map((key) => outcome(turn, key)).find((found) => found);

function record(outcomeOfTurn) {
  const [user, response, reference, steps] = run.records[outcomeOfTurn[0]];
  const numbers = run.steps[steps], list = [];
  for (let at = 0; at < numbers.length; at += 3) {
    list.push({ stage: run.text(numbers[at]), argument: run.text(numbers[at + 1]), output: run.text(numbers[at + 2]) });
  }
  return { user: run.text(user), response: run.text(response), reference: run.text(reference), steps: list };
}

const metric = () => run.metrics[Math.max(0, $("metric").selectedIndex)];

function harm(turn, now = turn.outcomes[0], before = turn.original) {
  const by = metric();
  if (!by.scored || !now) return null;
  const scores = [before[by.place], now[by.place]];
  if (scores.includes(null)) return null;
  const change = scores[0] - scores[1];
  return by.better === "higher" ? change : by.better === "lower" ? -change : Math.abs(change);
}

const word = () => metric().better === "neither" || metric().counterfactual ? "difference" : "harm";
const number = (value, sign = false) => value === null ? "n/a"
  : (sign && value > 0.0005 ? "+" : "") + (Math.abs(value) < 0.0005 ? 0 : value).toFixed(3).replace("-", "\u2212");
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// ---- list --------------------------------------------------------------------------------------------------------

function sort() {
  for (const turn of run.turns) {
    turn.harm = harm(turn);
    turn.rank = turn.harm === null ? (metric().scored ? -Infinity : turn.stage >= 0 ? 1 : 0) : turn.harm;
  }
  const last = (turn) => turn.axisText === "placebo";
  run.sorted = [...run.turns].sort((a, b) => last(a) - last(b) || b.rank - a.rank || (b.stage >= 0) - (a.stage >= 0));
}

function matches(words) {
  if (!words) return () => true;
  run.lower ||= run.texts.map((text) => text.toLowerCase());
  const has = run.lower.map((text) => text.includes(words));
  const inStep = run.steps.map((numbers) => numbers.some((index) => has[index]));
  const inRecord = run.records.map(([user, response, reference, steps]) =>
    has[user] || has[response] || has[reference] || inStep[steps]);
  return (turn) => has[turn.first] || has[turn.dialogue] || has[turn.term] || inRecord[turn.original[0]]
    || turn.outcomes.some((found) => inRecord[found[0]]);
}

function filter() {
  const found = matches($("search").value.trim().toLowerCase()), least = parseFloat($("least").value);
  const wanted = ["axis", "group", "stage", "first"].map((name) => [`${name}Text`, $(name).value]);
  shown = run.sorted.filter((turn) => wanted.every(([name, value]) => value === "any" || turn[name] === value.slice(1))
    && !(turn.harm <= least) && (isNaN(least) || turn.harm !== null) && found(turn));
  const by = metric();
  for (const name of ["sorted by", "least"]) document.querySelector(`[data-word="${name}"]`).textContent = word();
  $("count").textContent = `${shown.length.toLocaleString("en")} of ${plural(run.turns.length, "turn")}`
    + (by.scored ? "" : `: ${by.label} has no scores of single turns here, so those that differ come first`);
  $("rows").style.height = `${shown.length * HEIGHT}px`;
  $("list").scrollTop = 0;
  paint();
}

function paint() {
  const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + 5);
  $("rows").replaceChildren(...shown.slice(first, last).map((turn, place) => row(turn, first + place)));
  const index = shown.indexOf(chosen);
  if (index >= first && index < last) list.setAttribute("aria-activedescendant", `row${index}`);
  else list.removeAttribute("aria-activedescendant");
}

function row(turn, index) {
  const made = element("div", [
    element("div", [element("strong", pairOf(turn)), element("b", number(turn.harm, true), { title: word() })]),
    element("div", turn.stage < 0 ? [element("span", "nothing differs", { class: "muted" })] : [prose(turn.firstText)]),
    element("div", [element("span", placeOf(turn) + ": " + run.text(run.records[turn.outcomes[0][0]][0]))], { class: "muted" }),
  ], { class: "row", role: "option", id: `row${index}`, "aria-selected": turn === chosen, "aria-posinset": index + 1,
    "aria-setsize": shown.length, onclick: () => choose(turn, true) });
  made.style.top = `${index * HEIGHT}px`;
  return made;
}

const pairOf = (turn) => `${turn.axisText}: ${turn.sourceText || "original"} \u2192 ${turn.groupText}`;
const placeOf = (turn) => `dialogue ${turn.dialogueText}, turn ${(turn.turn ?? 0) + 1}`;

function prose(text) { // `stage` as code
  return element("span", text.split("`").map((part, place) => place % 2 ? element("code", part) : part));
}

// ---- one turn ----------------------------------------------------------------------------------------------------

function choose(turn, isRead, isNew = true) {
  chosen = turn;
  const index = shown.indexOf(turn), list = $("list");
  if (index >= 0 && (index * HEIGHT < list.scrollTop || (index + 1) * HEIGHT > list.scrollTop + list.clientHeight)) {
    list.scrollTop = (index - 1) * HEIGHT;
  }
  if (isRead) document.body.classList.add("reading");
  if (isNew) history[isRead ? "pushState" : "replaceState"](null, "", link(run, turn));
  paint();
  read();
  $("turn").scrollTop = 0;
}

function step(by) {
  if (!shown.length) return;
  const index = shown.indexOf(chosen);
  choose(shown[Math.min(shown.length - 1, Math.max(0, index < 0 ? 0 : index + by))], false);
}

function read() {
  const turn = chosen, key = armOf(replaced), now = outcome(turn, key);
  const before = record(turn.original), expected = record(blind(turn) || turn.outcomes[0]), after = now && record(now);
  const parts = [
    element("button", "‹ all turns", { type: "button", id: "back", onclick: leave }),
    element("h2", pairOf(turn)),
    element("div", [
      element("span", `${placeOf(turn)}${turn.termText ? `, term “${turn.termText}”` : ""}`),
      element("a", "link to this turn", { href: link(run, turn) }),
      ...others(turn),
    ], { class: "tools muted" }),
    banner(turn, key, expected, after),
    scoresOf(turn, now),
    estimateOf(turn),
    run.recorded ? null : switches(turn),
  ];
  if (after) parts.push(...compared(turn, before, expected, after));
  else parts.push(element("p", "This run did not run the system with exactly these stages replaced.", { class: "notice" }));
  parts.push(caseOf(turn));
  $("turn").replaceChildren(...parts.filter((part) => part));
}

const turnsOf = (turn) => run.turns.filter((other) => other.axis === turn.axis && other.dialogue === turn.dialogue
  && other.variant === turn.variant).sort((a, b) => a.turn - b.turn);

function others(turn) {
  const found = turnsOf(turn);
  return found.length < 2 ? [] : [element("span", "turns:"), ...found.map((other) => element("button", `${other.turn + 1}`, {
    type: "button", "aria-pressed": other === turn, title: `${word()} ${number(other.harm, true)}`,
    onclick: () => choose(other, true) }))];
}

const isSame = (one, other) => one && other && one.stage === other.stage && one.argument === other.argument
  && one.output === other.output;

function firstStep(expected, after) {
  const most = Math.max(expected.steps.length, after.steps.length);
  for (let at = 0; at < most; at++) if (!isSame(expected.steps[at], after.steps[at])) return at;
  return -1;
}

function banner(turn, key, expected, after) {
  const at = after ? firstStep(expected, after) : -1;
  if (!after) return null;
  const condition = key ? `With ${[...replaced].join(", ")} replaced: ` : "";
  if (at < 0) return element("p", `${condition || "Nothing differs: "}the system does the same as for the original, reworded.`, { class: "first none" });
  if (!key && turn.stage >= 0) return element("p", [element("strong", "First difference: "), prose(turn.firstText)], { class: "first" });
  const { stage } = after.steps[at] || expected.steps[at];
  return element("p", [condition, "the first difference is in ", element("code", stage)], { class: "first" });
}

function scoresOf(turn, now) {
  const by = metric();
  if (!by.scored) return element("p", `${by.label} has no scores of single turns here.`, { class: "muted" });
  const after = now ? now[by.place] : null, value = harm(turn, now);
  return element("p", [`${by.label}: original ${number(turn.original[by.place])}, counterfactual ${number(after)}, ${word()} `,
    element("strong", number(value, true))]);
}

function estimateOf(turn) {
  const all = run.estimates.find((row) => row.axis === turn.axisText && row.metric === metric().name);
  const group = all && all.groups.find((row) => row.name === turn.groupText);
  if (!group) return null;
  const claim = group.claim === "-" ? "nothing is claimed" : group.claim;
  return element("p", `In the whole run, ${group.name}: ${claim}, gap from the mean ${group.gap}, p ${group.p} (${group.dialogues} dialogues).`,
    { class: "muted" });
}

function switches(turn) {
  const toggle = (stage) => {
    if (!replaced.delete(stage)) replaced.add(stage);
    read();
  };
  return element("div", [element("span", "What if a stage were its twin?", { title:
    "A twin is the stage made blind to the rewriting: its input is turned back to the original, its output rewritten." }),
  ...run.stages.filter((stage) => run.arms.includes(stage)).map((stage) => { // of many stages those whose twins change anything
    const alone = harm(turn, outcome(turn, stage));
    return element("button", alone === null ? stage : `${stage} (${word()} ${number(alone, true)})`, { type: "button",
      "aria-pressed": replaced.has(stage), title: "the number: with this stage alone replaced", onclick: () => toggle(stage) });
  })], { class: "tools" });
}

function compared(turn, before, expected, after) {
  const at = firstStep(expected, after), parts = [];
  parts.push(element("div", [element("span", `Original${turn.roleText === "group" ? `: ${turn.sourceText}` : ""}`),
    element("span", `Counterfactual: ${turn.groupText}${replaced.size ? `, ${[...replaced].join(", ")} replaced` : ""}`)], { class: "pair head" }));
  if (turn.system >= 0) {
    const text = run.text(turn.system);
    parts.push(element("details", [element("summary", "System prompt (the same for both)"), element("p", text, { class: "text" })]));
  }
  parts.push(...earlier(turn, before.user === after.user));
  parts.push(pair("user", before.user, expected.user, after.user));
  const expectedOf = aligned(expected.steps, after.steps);
  for (const [ours, theirs] of aligned(before.steps, after.steps)) {
    const stage = (theirs || ours).stage, place = after.steps.indexOf(theirs);
    const like = expectedOf.find(([, other]) => theirs && other === theirs)?.[0] ?? ours;
    const isFirst = theirs ? place === at : at >= 0 && ours === before.steps[at];
    const label = isFirst ? `${stage}: differs first` : stage, kind = isFirst ? "differs" : "";
    const texts = (name) => [ours, like, theirs].map((one) => one ? one[name] : null);
    if (ours?.argument || theirs?.argument) parts.push(pair(`${label}, called with`, ...texts("argument"), kind));
    parts.push(pair(label, ...texts("output"), kind));
  }
  const last = after.steps.at(-1), isShown = last && last.output === after.response && before.steps.at(-1)?.output === before.response;
  if (!isShown) parts.push(pair("response", before.response, expected.response, after.response));
  parts.push(pair("reference", before.reference, expected.reference, after.reference));
  parts.push(element("p", [element("mark", "marked"), ": differs because of the system. ", element("u", "dotted"),
    ": exchanged by the rewriting."], { class: "muted" }));
  return parts;
}

function earlier(turn, isOpen) {
  const found = turnsOf(turn).filter((other) => other.turn < turn.turn);
  if (!found.length) return [];
  const made = element("details", [element("summary", `${plural(found.length, "earlier turn")}`), ...found.flatMap((other) => {
    const before = record(other.original), after = record(other.outcomes[0]), like = record(blind(other) || other.outcomes[0]);
    return [pair(`user, turn ${other.turn + 1}`, before.user, like.user, after.user),
      pair(`response, turn ${other.turn + 1}`, before.response, like.response, after.response)];
  })]);
  made.open = isOpen;
  return [made];
}

function aligned(ours, theirs) { // steps of the same stage beside each other
  const [left, right] = common(ours.map((one) => one.stage), theirs.map((one) => one.stage)), pairs = [];
  let i = 0, j = 0;
  while (i < ours.length || j < theirs.length) {
    if (i < ours.length && !left[i]) pairs.push([ours[i++], null]);
    else if (j < theirs.length && !right[j]) pairs.push([null, theirs[j++]]);
    else pairs.push([ours[i++], theirs[j++]]);
  }
  return pairs;
}

function pair(label, before, expected, after, kind = "") {
  const texts = [before, expected, after], isData = texts.some((text) => /^\s*[[{]/.test(text || "") || IS_CALL.test(text || ""));
  const shape = isData ? "text data" : "text", isSameText = before === after, isExpected = !isSameText || expected === after;
  const [left, middle, right] = texts.map((text) => words(laid(text)));
  const [inLeft, inRight] = common(left, right), [isKept] = common(left, middle), [, isMeant] = common(middle, right);
  const kinds = [left.map((_, at) => inLeft[at] ? "" : isKept[at] ? "mark" : "u"),
    right.map((_, at) => !isMeant[at] ? "mark" : inRight[at] ? "" : "u")];
  const cell = (side, text, tokens, marks) => element("div", [element("span", side, { class: "side" }), element("div",
    tokens.length ? marked(tokens, marks) : [element("span", text === null ? "(no such step)" : "(nothing)", { class: "blank" })],
    { class: shape })]);
  const made = element("div", [element("h3", label)], { class: `pair ${kind}` });
  if (isSameText && isExpected) made.append(element("div", laid(before) || "(nothing)", { class: `both ${shape}` }));
  else made.append(cell("original", before, left, kinds[0]), cell("counterfactual", after, right, kinds[1]));
  if (!isExpected) made.append(element("div", `Reworded as the dialogue is, the original's would be: ${laid(expected)}`, { class: "both" }));
  return made;
}

function laid(text) { // JSON, and calls as `name = value ; …`, with a line per field
  if (IS_CALL.test(text || "")) return text.replaceAll(" ; ", "\n").replaceAll(" | ", "\n\n").replaceAll("= \\#", "= ");
  if (!/^\s*[[{]/.test(text || "")) return text || "";
  try { return JSON.stringify(JSON.parse(text), null, 1); } catch { return text; }
}

const words = (text) => text.match(/(?:[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_])\s*|\s+/gu) || [];

function marked(tokens, kinds) {
  const pieces = [];
  for (let at = 0; at < tokens.length;) {
    let end = at;
    while (end < tokens.length && kinds[end] === kinds[at]) end++;
    const text = tokens.slice(at, end).join(""), bare = kinds[at] ? text.trimEnd() : text;
    pieces.push(kinds[at] ? element(kinds[at], bare) : text, text.slice(bare.length));
    at = end;
  }
  return pieces;
}

function common(left, right) { // which of either are in a longest common subsequence
  const a = left.map((one) => one.trim()), b = right.map((one) => one.trim());
  const inA = new Array(a.length).fill(false), inB = new Array(b.length).fill(false);
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) inA[start] = inB[start++] = true;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) inA[--endA] = inB[--endB] = true;
  const height = endA - start + 1, width = endB - start + 1;
  if (height * width > MOST_CELLS) return [inA, inB];
  const longest = new Uint32Array(height * width);
  for (let i = height - 2; i >= 0; i--) {
    for (let j = width - 2; j >= 0; j--) {
      longest[i * width + j] = a[start + i] === b[start + j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < height - 1 && j < width - 1;) {
    if (a[start + i] === b[start + j]) inA[start + i++] = inB[start + j++] = true;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  const share = 2 * inA.filter(Boolean).length / (a.length + b.length);
  return share < ALIKE ? [inA.fill(false), inB.fill(false)] : [inA, inB];
}

// ---- regression cases --------------------------------------------------------------------------------------------

function caseOf(turn) {
  const remaining = harm(turn, turn.outcomes[0], blind(turn) || turn.original);
  if (turn.roleText !== "group" || metric().better === "neither" || !(remaining > TOLERANCE)) return null;
  const name = `${turn.axisText}/${turn.dialogueText}/${turn.sourceText}>${turn.groupText}/${turn.turn + 1}`;
  const quoted = (text) => /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const toggle = () => { if (!cases.delete(name)) cases.add(name); read(); };
  const parts = [element("div", [element("button", cases.has(name) ? "Leave out of the regression cases" : "Make it a regression case",
    { type: "button", "aria-pressed": cases.has(name), onclick: toggle })], { class: "tools" })];
  if (cases.size) {
    const command = `tod-bias cases ${quoted(run.folder)} ${[...cases].map((one) => `--only ${quoted(one)}`).join(" ")} --out cases.jsonl`;
    const copy = (event) => navigator.clipboard.writeText(command).then(() => { event.target.textContent = "Copied"; });
    parts.push(element("p", `This command adds ${plural(cases.size, "turn")} to a file for tod-bias check --cases:`, { class: "muted" }),
      element("div", [element("code", command), element("button", "Copy", { type: "button", onclick: copy })], { class: "command" }));
  }
  return element("div", parts);
}

// ---- the run -----------------------------------------------------------------------------------------------------

function overview() {
  chosen = null;
  const by = metric(), parts = [element("button", "‹ all turns", { type: "button", id: "back", onclick: leave }),
    element("h2", "What the run found")];
  for (const some of run.answers) {
    parts.push(element("h3", [`${some.axis} `, element("span", some.answer, { class: `badge ${some.look}` })]),
      ...some.lines.map((text) => element("p", text)));
  }
  parts.push(element("h2", `Groups by ${by.label}`));
  for (const row of run.estimates.filter((one) => one.metric === by.name)) {
    parts.push(element("h3", row.axis), ...row.differences.map((text) => element("p", [prose(text)], { class: "first" })));
    if (row.groups.length) parts.push(table(row));
  }
  parts.push(...run.notes.map((text) => element("p", text, { class: "notice muted" })));
  $("turn").replaceChildren(...parts);
  paint();
}

function table(row) {
  const heads = ["group", "claim", "dialogues", "score", "gap from mean [95%]", "p", "beyond rewording [95%]"];
  const show = (group) => { $("axis").value = `=${row.axis}`; options(); $("group").value = `=${group}`; filter(); leave(); };
  return element("div", [element("table", [
    element("thead", [element("tr", heads.map((text) => element("th", text, { scope: "col" })))]),
    element("tbody", row.groups.map((group) => element("tr", [
      element("th", [element("button", group.name, { type: "button", title: "show its turns", onclick: () => show(group.name) })], { scope: "row" }),
      ...["claim", "dialogues", "score", "gap", "p", "beyond"].map((name) => element("td", group[name])),
    ]))),
  ])], { class: "scroll", role: "group", tabindex: "0", "aria-label": `Groups of ${row.axis}` });
}

function leave() {
  document.body.classList.remove("reading");
  $("list").focus();
}

// ---- controls ----------------------------------------------------------------------------------------------------

function fill(select, entries, name = "any") {
  const before = select.value;
  select.replaceChildren(element("option", name, { value: "any" }), ...entries.map(([value, text]) => element("option", text, { value: `=${value}` })));
  select.value = before;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

function counts(turns, name) {
  const found = new Map();
  for (const turn of turns) found.set(turn[name], (found.get(turn[name]) || 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, 200);
}

function options() { // what there is to choose, given what is chosen before it
  let turns = run.turns;
  for (const name of ["axis", "group", "stage", "first"]) {
    const nothing = name === "stage" || name === "first" ? "nothing differs" : "none";
    fill($(name), counts(turns, `${name}Text`).map(([value, count]) =>
      [value, `${(value || nothing).replaceAll("`", "")} (${count.toLocaleString("en")})`]));
    const { value } = $(name);
    if (value !== "any") turns = turns.filter((turn) => turn[`${name}Text`] === value.slice(1));
  }
}

function open(number) {
  run = load(number);
  $("run").selectedIndex = number;
  const before = $("metric").value;
  $("metric").replaceChildren(...run.metrics.map((one) => element("option", one.label, { value: one.name })));
  $("metric").value = before;
  if ($("metric").selectedIndex < 0) $("metric").selectedIndex = 0;
  replaced = new Set();
  $("about").textContent = `${run.corpus}, ${plural(run.dialogues, "dialogue")}, ${run.stages.join(" > ")}`;
  sort();
  options();
  filter();
}

function follow() { // the link
  const names = JSON.parse($("names").textContent), parts = location.hash.slice(1).split("/");
  const number = Math.max(0, names.findIndex((name) => encodeURIComponent(name) === parts[0]));
  if (run !== runs[number] || !run) open(number);
  const turn = run.byPlace.get(location.hash);
  document.body.classList.toggle("reading", !!turn);
  if (turn) choose(turn, true, false);
  else overview();
}

function change() {
  sort();
  filter();
  if (chosen) read();
  else overview();
}

function switchRun() { // the same turn of the other run, where it has it
  const turn = chosen;
  open($("run").selectedIndex);
  const same = turn && run.byPlace.get(link(run, turn));
  if (same) choose(same, document.body.classList.contains("reading"));
  else overview();
}

function press(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") leave();
  else if (isTyping) return;
  else if (event.key === "j" || (event.key === "ArrowDown" && !$("turn").contains(event.target))) step(1);
  else if (event.key === "k" || (event.key === "ArrowUp" && !$("turn").contains(event.target))) step(-1);
  else if (event.key === "/") { leave(); $("search").focus(); }
  else if (event.key === "Enter" && event.target === $("list") && chosen) { choose(chosen, true); $("turn").focus(); }
  else return;
  event.preventDefault();
}

const names = JSON.parse($("names").textContent);
$("run").replaceChildren(...names.map((name) => element("option", name)));
$("runs").hidden = names.length < 2;
$("run").addEventListener("change", switchRun);
$("metric").addEventListener("change", change);
for (const name of ["axis", "group", "stage", "first"]) $(name).addEventListener("change", () => { options(); filter(); });
for (const name of ["search", "least"]) $(name).addEventListener("input", filter);
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("found").addEventListener("click", () => {
  history.pushState(null, "", location.pathname + location.search);
  document.body.classList.add("reading");
  overview();
});
$("list").addEventListener("scroll", paint);
window.addEventListener("resize", paint);
window.addEventListener("popstate", follow);
window.addEventListener("hashchange", follow);
document.addEventListener("keydown", press);
follow();
