"""The cookies that a server has set go back, within bounds."""

from conductor.transports.remote.cookies import Cookies


def test_the_last_value_of_each_name_goes_back() -> None:
    cookies = Cookies()
    assert cookies.header() == {}
    cookies.take(["pod=7; Path=/; HttpOnly", "a=b=c", "none", "evil=\x01", "ünï=1"])
    cookies.take(["pod=8"])
    assert cookies.header() == {"Cookie": "a=b=c; pod=8"}


def test_a_flood_is_forgotten_from_its_beginning() -> None:
    cookies = Cookies()
    cookies.take(f"c{number}=1" for number in range(1000))
    names = [one.partition("=")[0] for one in cookies.header()["Cookie"].split("; ")]
    assert names == [f"c{number}" for number in range(936, 1000)]
