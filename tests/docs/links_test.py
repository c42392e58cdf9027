#!/usr/bin/env python3
"""links_test.py SITE: every link of the built manual must lead to a page or an anchor in it. Links to other sites
are not followed."""
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        values = dict(attributes)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


def broken_links(site: pathlib.Path) -> list[str]:
    # Doxygen checks its own pages.
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
             if "api" not in path.relative_to(site).parts and path.name != "404.html"}
    assert len(pages) > 30, f"only {len(pages)} pages in {site}"
    broken = []
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if target.is_dir():
                target /= "index.html"
            name = path.relative_to(site)
            # The C++ API is built beside the site (scripts/docs).
            if not target.exists() and "/reference/api/" not in target.as_posix():
                broken.append(f"{name}: {link}: no such page")
            elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].anchors:
                broken.append(f"{name}: {link}: no such anchor")
    return broken


if __name__ == "__main__":
    found = broken_links(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(found) or "all links lead somewhere")
    sys.exit(1 if found else 0)
