"""One is one edit, and none, or two, are edits."""

import pytest

from ebbtide.core.text.preview import pluralize


@pytest.mark.parametrize(("number", "said"), [(0, "0 edits"), (1, "1 edit"), (2, "2 edits"), (1200, "1,200 edits")])
def test_a_number_and_its_noun_agree(number, said):
    assert pluralize(number, "edit") == said
