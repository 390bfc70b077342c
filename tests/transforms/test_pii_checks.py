"""Checksums and phone numbers against other implementations: python-stdnum, and the example numbers of libphonenumber."""

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iban, isbn, luhn
from stdnum.cn import ric
from stdnum.iso7064 import mod_11_10

from dataplane.transforms.pii_checks import valid_cn_id, valid_iban, valid_isbn13, valid_luhn, valid_mod_11_10
from dataplane.transforms.pii_recognizers import Recognizers

DIGITS = st.text(st.sampled_from("0123456789"), min_size=12, max_size=18)
REGIONS = sorted(phonenumbers.SUPPORTED_REGIONS)


@given(DIGITS)
def test_luhn_and_mod_11_10_are_those_of_stdnum(digits: str) -> None:
    for last in "0123456789":
        number = digits + last
        assert valid_luhn(number) == (luhn.is_valid(number) and len(set(number)) > 1)
        assert valid_mod_11_10(number) == mod_11_10.is_valid(number)
        assert valid_isbn13(number) == (isbn.is_valid(number) and len(number) == 13)


@given(st.text(st.sampled_from("0123456789"), min_size=17, max_size=17))
def test_the_check_character_of_an_identity_number_is_that_of_stdnum(digits: str) -> None:
    assert [last for last in "0123456789X" if valid_cn_id(digits + last)] == [ric.calc_check_digit(digits + "0")]


@given(st.sampled_from(["DE", "GB", "FR", "NL", "AT", "BE", "ES", "CH"]), st.text(st.sampled_from("0123456789"), min_size=24, max_size=24))
def test_check_digits_of_accounts_are_those_of_stdnum(country: str, digits: str) -> None:
    lengths = {"DE": 18, "GB": 18, "FR": 23, "NL": 14, "AT": 16, "BE": 12, "ES": 20, "CH": 17}
    body = digits[: lengths[country]]
    right = iban.calc_check_digits(country + "00" + body)
    assert [check for check in map("{:02}".format, range(2, 99)) if valid_iban(country + check + body)] == [right]


def test_example_numbers_of_every_region_are_found_in_their_international_form() -> None:
    recognizers = Recognizers(["phone"])
    missed = []
    for region in REGIONS:
        number = phonenumbers.example_number(region)
        for form in (phonenumbers.PhoneNumberFormat.INTERNATIONAL, phonenumbers.PhoneNumberFormat.E164):
            written = phonenumbers.format_number(number, form)
            spans = [(span.start, span.stop) for span in recognizers.find(f"Write to {written} today")]
            missed += [] if spans == [(9, 9 + len(written))] else [(region, written, spans)]
    assert missed == []


def test_example_numbers_of_every_region_are_found_behind_a_word_in_their_national_form() -> None:
    recognizers = Recognizers(["phone"])
    missed = []
    for region in REGIONS:
        written = phonenumbers.format_number(phonenumbers.example_number(region), phonenumbers.PhoneNumberFormat.NATIONAL)
        if sum(map(str.isdigit, written)) >= 6:
            spans = [(span.start, span.stop) for span in recognizers.find(f"Phone: {written} today")]
            missed += [] if spans == [(7, 7 + len(written))] else [(region, written, spans)]
    assert missed == []


@pytest.mark.parametrize("text", ["电话：0755-26771234", "电话（0571）8765 4321", "传真: 021-62771234", "+86 21 6277 1234", "010-62771234"])
def test_landlines_in_chinese_text_are_found(text: str) -> None:
    (span,) = Recognizers(["phone"], ("CN",)).find(f"请联系{text}，谢谢")
    assert [character for character in text if character.isdigit()] == [
        c for c in f"请联系{text}，谢谢"[span.start : span.stop] if c.isdigit()
    ]
