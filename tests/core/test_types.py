"""The values everything speaks in cannot be changed: a view and a log rely on items and edits as they were read."""

from dataclasses import FrozenInstanceError

import pytest

from ebbtide.core.types import Edit
from talk import talk


@pytest.mark.parametrize("value", [talk("user:fix it")[0], Edit(by="clear_results")], ids=["item", "edit"])
def test_a_value_refuses_to_be_changed(value):
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter(value.__dataclass_fields__)), "other")
