"""What MkDocs needs to build the site of pages that are written for GitHub.

The pages stay as they are: README.md becomes the home page, links that leave docs/ go to the repository, and lists are indented as
Python-Markdown wants them.
"""

import posixpath
import re
from pathlib import Path

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?\)")
ITEM = re.compile(r"^( *)([*-]|\d+\.) +(?=\S)")


def root(config):
    """The folder of the repository."""
    return Path(config.config_file_path).resolve().parents[2]


class Headings(Treeprocessor):
    """Names the column in each cell of a table, for narrow.css."""

    def run(self, root):
        for table in root.iter("table"):
            names = ["".join(cell.itertext()) for cell in table.iter("th")]
            for row in table.iter("tr"):
                for name, cell in zip(names, row.findall("td")):
                    cell.set("data-heading", name)


class HeadingsOfColumns(Extension):
    """Adds Headings after the inline Markdown of the cells is read."""

    def extendMarkdown(self, md):
        md.treeprocessors.register(Headings(md), "headings", 1)


def on_config(config):
    config.markdown_extensions.append(HeadingsOfColumns())
    return config


def on_files(files, config):
    """Adds the style for phones, the home page, and the pages of the root that others link to."""
    style = Path(config.config_file_path).with_name("narrow.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "narrow.css", content=style))
    for source, target in (("README.md", "index.md"), ("CHANGELOG.md", "CHANGELOG.md"), ("SECURITY.md", "SECURITY.md")):
        text = (root(config) / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrites links and lists of a page."""
    name = page.file.src_uri
    if name == "index.md":
        # The home page is README.md, which is above docs/.
        page.edit_url = f"{config.repo_url}/edit/main/README.md"
    elif name in ("CHANGELOG.md", "SECURITY.md"):
        page.edit_url = f"{config.repo_url}/edit/main/{name}"
    # A page of the root is at the top of the site, and in the repository above docs/.
    at_root = name in ("index.md", "CHANGELOG.md", "SECURITY.md")
    folder = "" if at_root else posixpath.join("docs", posixpath.dirname(name))

    def link(match):
        path, anchor = match[2], match[3] or ""
        target = posixpath.normpath(posixpath.join(folder, path))
        if target in ("CHANGELOG.md", "SECURITY.md", "README.md"):
            inside = "index.md" if target == "README.md" else target
        elif target.startswith("docs/") and files.get_file_from_path(target[len("docs/") :]):
            inside = target[len("docs/") :]
        else:
            if target.startswith("..") or not (root(config) / target).exists():
                raise PluginError(f"{name}: there is no {target}")
            return f"{match[1]}{config.repo_url}/blob/main/{target}{anchor})"
        start = posixpath.dirname(name) or "."
        return f"{match[1]}{posixpath.relpath(inside, start)}{anchor})"

    return tabs(indent(outside_code(without_contents(markdown), link)), name)


def tabs(markdown, name):
    """Makes tabs of paragraphs in bold between two comments, each with the text below it. GitHub shows one after the other."""
    lines, inside = [], False
    for line in markdown.split("\n"):
        title = re.fullmatch(r"\*\*(.+)\*\*", line) if inside else None
        if line == "<!-- tabs -->" or line == "<!-- end of tabs -->":
            if inside == (line == "<!-- tabs -->"):
                raise PluginError(f"{name}: {line} is in the wrong place")
            inside = not inside
        elif title:
            lines.append(f'=== "{title[1]}"')
        else:
            lines.append("    " + line if inside and line else line)
    if inside:
        raise PluginError(f"{name}: tabs have no end")
    return "\n".join(lines)


def without_contents(markdown):
    """Drops the lists of sections at the top of a page: the site shows them beside the page, and on a phone in its menu."""
    top, heading, rest = markdown.partition("\n## ")
    top = re.sub(r"(?m)^- \[[^\]]*\]\(#(?:.*\n(?!\n|- ))*.*\n", "", top)
    return top + heading + rest


def outside_code(markdown, link):
    """Rewrites links, but not in blocks of code."""
    lines, code = [], False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            code = not code
        lines.append(line if code else LINK.sub(link, line))
    return "\n".join(lines)


def indent(markdown):
    """Indents what belongs to an item of a list by four spaces, and separates a list from the paragraph above."""
    # Each open item: the column of its text, and the new column.
    lines, open_items, code, blank, table = [], [], False, True, False
    for line in markdown.split("\n"):
        stripped = line.lstrip(" ")
        column = len(line) - len(stripped)
        if not stripped:
            lines.append("")
            blank = True
            continue
        if not code:
            while open_items and column < open_items[-1][0] and (blank or ITEM.match(line)):
                open_items.pop()
        old, new = open_items[-1] if open_items else (0, 0)
        item = None if code else ITEM.match(line)
        if item and not open_items and not blank:
            lines.append("")
        is_table = stripped.startswith("|") and not code
        if is_table and not table and not blank:
            lines.append("")
        table = is_table
        lines.append(" " * (new + max(0, column - old)) + stripped)
        if item:
            open_items.append((len(item[0]), new + 4))
        if stripped.startswith("```"):
            code = not code
        blank = False
    return "\n".join(lines)
