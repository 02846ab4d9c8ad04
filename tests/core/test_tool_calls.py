"""Reading calls and results of any make."""

import base64
import struct
from dataclasses import replace

import pytest

from ebbtide.core.tool_calls import (
    call_arguments,
    compact_instructions,
    describe_item,
    file_path,
    is_failed_result,
    is_read_call,
    media_blocks,
    tool_name,
    unreadable_files,
)
from ebbtide.core.types import OURS, Edit
from ebbtide.core.view import View
from talk import talk


def call(name, text):
    return replace(talk(f"call:{name}")[0], text=text)


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ('{"file_path": "a.py"}', "a.py"),  # Claude Code
        ('{"filePath": "b.py"}', "b.py"),  # OpenCode
        ('{"path": "c.py", "content": ""}', "c.py"),  # MCP, str_replace editors
        ('{"notebook_path": "d.ipynb"}', "d.ipynb"),
        ('{"target_file": "e.py"}', "e.py"),
        ('{"input": "*** Begin Patch\\n*** Update File: src/f.py\\n@@"}', "src/f.py"),  # Codex, as a function
        ("*** Begin Patch\n*** Add File: g.py\n+x", "g.py"),  # Codex, as a custom tool
        ('{"command": "ls"}', ""),
        ('{"file_path": 3}', ""),
        ("[1]", ""),
        ("not json", ""),
        ("[" * 100_000, ""),
    ],
)
def test_the_file_a_call_names(text, file):
    assert file_path(call("edit", text)) == file


def test_arguments_that_are_no_object_are_empty():
    assert call_arguments(call("x", '"text"')) == {}
    assert call_arguments(call("x", '{"a": 1}')) == {"a": 1}


def test_an_editor_reads_only_when_it_views():
    view = '{"command": "view", "path": "a.py"}'

    assert is_read_call(call("str_replace_based_edit_tool", view)) == "a.py"
    assert is_read_call(call("str_replace_based_edit_tool", view.replace("view", "create"))) == ""
    assert is_read_call(call("write_file", '{"path": "a.py"}')) == ""


def test_a_list_of_parts_is_written_as_json_with_indent_two():
    """R109."""
    (_, result) = talk("call:x", "listed result:hé")

    assert describe_item(result) == '[\n  {\n    "type": "text",\n    "text": "hé"\n  }\n]'
    assert describe_item(result, indent=None) == '[{"type":"text","text":"hé"}]'
    assert describe_item(talk("call:x", "result:hi")[1]) is None
    assert describe_item(replace(result, raw={"content": [object()]})) is None


def test_a_failed_result_says_so():
    assert is_failed_result(talk("call:x", "error result:no")[1])
    assert not is_failed_result(talk("call:x", "listed result:yes")[1])


def test_a_result_without_a_call_is_of_an_unknown_tool():
    """Acceptance check 14."""
    view = View.of(talk("user:go", "result:hi"))

    assert tool_name(view, view.results[0]) == "unknown"


def test_a_result_gets_its_tool_from_the_call():
    view = View.of(talk("user:go", "call:read", "result:hi"))

    assert tool_name(view, replace(view.results[0], name="")) == "read"


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1200, 800)


@pytest.mark.parametrize(
    ("raw", "about"),
    [
        (
            {"source": {"type": "base64", "media_type": "image/jpeg", "data": base64.b64encode(PNG).decode()}},
            "image/png 1200x800",
        ),
        ({"image_url": {"url": "data:image/png;base64," + base64.b64encode(PNG).decode()}}, "image/png 1200x800"),
        ({"image_url": "data:image/png;base64," + base64.b64encode(PNG).decode()}, "image/png 1200x800"),
        ({"source": {"type": "url", "url": "https://a.example/cat.png"}}, "https://a.example/cat.png"),
        ({"title": "Paper", "source": {"media_type": "application/pdf", "data": ""}}, "Paper application/pdf"),
        ({"file": {"filename": "p.pdf", "file_data": ""}}, "p.pdf"),
        ({"source": {"data": 7}}, ""),
        (None, ""),
    ],
)
def test_an_image_is_described(raw, about):
    assert media_blocks(replace(talk("image:1500")[0], raw=raw)) == about


def test_the_description_of_an_image_is_short():
    long = {"source": {"url": "https://a.example/" + "x" * 10_000}}

    assert len(media_blocks(replace(talk("image:1500")[0], raw=long))) == 200


def gone(view, n):
    result = view.results[n]
    put = replace(result, id="", text="gone", source=OURS)
    return Edit(by="test", first=result.id, last=result.id, replacement=(put,))


def test_a_file_is_forgotten_when_no_read_of_it_remains():
    """R145, acceptance check 22: `a` was read again and stays known, `b` was not."""
    lines = (
        "call:Read a",
        "result:1 a",
        "call:Read b",
        "result:2 b",
        "call:Read a",
        "result:3 a",
        "call:Bash c",
        "result:4",
    )
    view = View.of(talk("user:go", *lines))
    after = view.apply([gone(view, 0), gone(view, 1), gone(view, 3)])

    assert unreadable_files(view, after) == ("b",)
    assert unreadable_files(view, after.apply([gone(view, 2)])) == ("a", "b")
    assert unreadable_files(after, after) == ()


def test_a_read_that_an_edit_carried_along_is_still_seen():
    view = View.of(talk("user:go", "say:hm", "call:Read a", "result:1 a", "user:ok"))
    call, result = view.entries[2:4]
    fold = Edit(by="test", first=view.entries[1].id, last=result.id, replacement=(call, result))

    assert unreadable_files(view, view.apply([fold])) == ()


def test_sections_about_summaries_are_found() -> None:
    text = (
        "# Rules\nx\n## Compact Instructions\nKeep SQL.\n### Also\nIds.\n## Else\ny\n# Summary instructions\nBe brief."
    )

    assert compact_instructions(text) == "Keep SQL.\n### Also\nIds.\n\nBe brief."
    assert compact_instructions("# Rules\nNo compact instructions here") == ""
