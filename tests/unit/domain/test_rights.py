"""Rights by name and back."""

import pytest

from partibus.domain.errors import ArgumentError
from partibus.domain.rights import ALL_RIGHTS, Rights, names_of_rights, rights_from_names


@pytest.mark.rule("SAS-1")
def test_names_become_rights_and_back() -> None:
    assert rights_from_names(["Send", "listen"]) == Rights.SEND | Rights.LISTEN
    assert names_of_rights(ALL_RIGHTS) == ("Manage", "Send", "Listen")
    assert names_of_rights(Rights.NONE) == ()


def test_an_unknown_right_is_told_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="'Read' is not a valid right; allowed: Manage, Send"):
        rights_from_names(["Send", "Read"])
