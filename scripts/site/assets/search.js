// The search of the manual, in place of the theme's. A page that is opened as a file may not start the theme's worker, and
// the theme's index has no Chinese words. This search finds parts of words, so it needs no list of words.
//
// The theme's script sends the messages SETUP and QUERY to a worker, and shows its answers READY and RESULT.
(() => {
  const [SETUP, READY, QUERY, RESULT] = [0, 1, 2, 3];
  let sections = [];

  // A page that is opened as a file may not fetch the index, but it may load it as a script.
  if (location.protocol === "file:") {
    const script = document.createElement("script");
    script.src = new URL("../search/search_index.js", document.currentScript.src);
    window.__search = {index: new Promise(resolve => { script.onload = () => resolve(__index); })};
    document.head.append(script);
  }

  // Returns how well a section has all the words, or 0 if it lacks one. Titles and beginnings of words count more.
  function score(section, words) {
    let sum = 0;
    for (const word of words) {
      const uses = section.text.match(new RegExp(word, "gi"))?.length ?? 0;
      const is_in_title = new RegExp(word, "i").test(section.title);
      if (!uses && !is_in_title) return 0;
      const begins_word = new RegExp(`(?<!\\w)${word}`, "i").test(`${section.title} ${section.text}`);
      sum += Math.log2(1 + uses) + (is_in_title ? 20 : 0) + (begins_word ? 5 : 0);
    }
    return sum;
  }

  // Returns the pages that have all the words in one section, the best first. A page is a list: itself, then its sections.
  function search(query) {
    const terms = query.split(/[\s"*+^~]+/).filter(term => term.replace(/-/g, ""));
    if (!terms.length) return [];
    const words = terms.map(term => term.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const any = new RegExp(`(${words.join("|")})`, "i");
    const escape = text => text.replace(/[&<>"]/g, sign => `&#${sign.charCodeAt(0)};`);
    const mark = text => text.split(any).map(
      (part, number) => number % 2 ? `<mark data-md-highlight>${escape(part)}</mark>` : escape(part)).join("");
    const pages = new Map();
    for (const section of sections) {
      const page = section.location.split("#")[0];
      const found = {...section, score: score(section, words), title: mark(section.title), text: mark(section.text),
                     terms: Object.fromEntries(terms.map(term => [term, true]))};
      pages.set(page, [...pages.get(page) ?? [], found]);
    }
    const by_score = (one, other) => other.score - one.score;
    return [...pages.values()].map(([page, ...others]) => [page, ...others.filter(section => section.score).sort(by_score)])
      .map(page => ({page, score: Math.max(...page.map(section => section.score))}))
      .filter(({score}) => score).sort(by_score).map(({page}) => page);
  }

  window.Worker = class extends EventTarget {
    postMessage({type, data}) {
      if (type === SETUP) sections = data.docs;
      const answer = type === SETUP ? {type: READY} : {type: RESULT, data: {items: type === QUERY ? search(data) : []}};
      setTimeout(() => this.dispatchEvent(new MessageEvent("message", {data: answer})));
    }
  };
})();
