"""A hook of MkDocs: writes the index that assets/search.js searches. The pages for contributors are not in it."""
import html
import json
import pathlib
import re

HEADING = re.compile(r'<h[1-6] id="([^"]+)">(.*?)</h[1-6]>', re.DOTALL)
sections = []


def words_of(text: str) -> str:
    text = re.sub(r'<a class="headerlink".*?</a>|</?(a|code|em|span|strong)\b[^>]*>', "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def on_pre_build(**_: object) -> None:
    sections.clear()


def on_page_content(content: str, page, **_: object) -> str:
    if not page.url.startswith("development/"):
        before, *parts = HEADING.split(content)
        # The first heading is the title of the page.
        for number, (anchor, title, text) in enumerate(zip(parts[::3], parts[1::3], parts[2::3])):
            location = page.url + (f"#{anchor}" if number else "")
            sections.append({"location": location, "title": words_of(title), "text": words_of(text)})
    return content


def on_post_build(config, **_: object) -> None:
    index = pathlib.Path(config["site_dir"], "search/search_index.json")
    text = json.dumps({**json.loads(index.read_text(encoding="utf-8")), "docs": sections}, ensure_ascii=False)
    index.write_text(text, encoding="utf-8")
    # Pages that are opened as files load it as a script.
    index.with_suffix(".js").write_text(f"var __index = {text};\n", encoding="utf-8")
