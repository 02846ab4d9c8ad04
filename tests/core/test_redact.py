"""Secrets are masked by shape and by name; code, ids, hashes and pictures stay as they are."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.text.redact import redact, redact_tree

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "api-key": "sk-ant-" + "api03-" + "Ab3dE" * 8,
    "github-token": "ghp_" + "a1B2c3" * 6,
    "aws-key": "AKIA" + "ABCDEFGH12345678",
    "slack-token": "xoxb-" + "1234567890-abcdefGHIJ",
    "google-key": "AIza" + "Sy0" * 12,
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "dBjftJeZ4CVPmB92K27",
    "private-key": "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nIBAA\n-----END RSA PRIVATE" + " KEY-----",
    "registry-token": "hf_" + "aBcDe" * 7,
}

NAMED = {
    "password=hunter2x": "password=[redacted: password]",
    'DB_PASSWORD="p w d"': 'DB_PASSWORD="[redacted: password]"',
    "'client_secret': 'abcd1234'": "'client_secret': '[redacted: password]'",
    "export API_TOKEN=abcdef12": "export API_TOKEN=[redacted: password]",
    "Authorization: Bearer abcdefghijklmnop1234": "Authorization: Bearer [redacted: credential]",
    "postgres://me:s3cret@host/db": "postgres://me:[redacted: password]@host/db",
}

INNOCENT = [
    "def login(password: str, token: str) -> None:",
    "token = parser.next_token()",
    'password = os.environ["PASSWORD"]',
    "PASSWORD=$SECRET_FROM_VAULT",
    "PASSWORD=${DB_PASSWORD}",
    "max_tokens=200000, tokens: 1234567",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "/Users/somebody/Work/project/src/ebbtide/fronts/cli/Main2Test3.py",
    "src/Foo1/barQux2/Klmnop3/vwxyzHJ/DGTR",
    "Test1Test2Test3Test1Test2Test3Test",
    "the-quick-brown-fox-jumps-over-the-lazy-dog-42-Times",
    "toolu_01A2b3C4d5E6f7G8h9J0kLmN",
    "password=********",
    "https://host:8080/path@v2",
    "skip-list and risk-free",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_a_known_shape_is_masked_wherever_it_appears(kind):
    text, secrets = redact(f"before ({SECRETS[kind]}) after")

    assert text == f"before ([redacted: {kind}]) after"
    assert secrets == {kind: 1}


@pytest.mark.parametrize("text", NAMED)
def test_a_value_with_a_revealing_name_is_masked_and_the_name_stays(text):
    assert redact(text)[0] == NAMED[text]
    assert redact(NAMED[text]) == (NAMED[text], {})


@pytest.mark.parametrize("text", INNOCENT)
def test_text_that_is_not_secret_stays(text):
    assert redact(text) == (text, {})


def test_a_lone_random_word_of_a_keys_length_is_masked():
    word = base64.b64encode(hashlib.sha256(b"seed 3").digest()).decode()

    assert redact(f"key {word} end")[0] == "key [redacted: random] end"


def test_a_key_cut_off_in_the_middle_is_masked_to_the_end():
    assert redact("x -----BEGIN PRIVATE" + " KEY-----\nMIIE")[0] == "x [redacted: private-key]"


def test_in_json_a_revealing_key_is_enough_and_pictures_and_signatures_stay():
    picture = base64.b64encode(hashlib.sha256(b"p").digest()).decode()
    value = {"input": {"password": "x1", "n": 3, "to": ["a", None]}, "data": picture, "signature": picture}

    cleaned, secrets = redact_tree(value)

    assert cleaned == {**value, "input": {"password": "[redacted: password]", "n": 3, "to": ["a", None]}}
    assert secrets == {"password": 1}


@given(st.text())
def test_masking_twice_changes_nothing_more(text):
    once, _ = redact(text)

    assert redact(once)[0] == once


@pytest.mark.parametrize("before", ["", "-", "--", "session-", "a-b_c-", "x" * 30 + "-"])
def test_a_token_after_dashed_words_is_masked_and_the_words_stay(before):
    token = SECRETS["jwt"]

    assert redact(f"see {before}{token} here")[0] == f"see {before}[redacted: jwt] here"


@pytest.mark.parametrize("name", ["password", "my-db-password", "a_secret", "x.api_key", "PROD_ACCESS_TOKEN"])
def test_text_before_a_revealing_name_does_not_hide_it(name):
    assert redact(f'{name} = "hunter2222"')[0] == f'{name} = "[redacted: password]"'
    assert redact(f"{name}=hunter2222 next")[0] == f"{name}=[redacted: password] next"
