"""Signing in to the management page: users of other backends, and OpenID Connect."""

from __future__ import annotations

import http.cookiejar
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from auth_backends.conftest import BackedBroker, Start
from auth_backends.http_service import AuthService
from auth_backends.token_issuer import TokenIssuer

WITHIN_S = 60.0


class Browser:
    """Follows redirects and keeps cookies, as a person's does."""

    def __init__(self, broker: BackedBroker, issuer: TokenIssuer) -> None:
        self.base = f"http://127.0.0.1:{broker.http_port}"
        context = ssl.create_default_context(cafile=str(issuer.authority.cacertfile))
        self.cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPCookieProcessor(self.cookies),
        )

    def visit(self, path: str, **form: str) -> tuple[int, str, str]:
        """Return status, address and text of the page where it ends up."""
        data = urlencode(form).encode() if form else None
        request = urllib.request.Request(self.base + path, data, headers={"accept": "text/html"})
        try:
            with self._opener.open(request, timeout=WITHIN_S) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.url, answer.read().decode()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer(tmp_path_factory.mktemp("issuer"))
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def broker(start: Start, issuer: TokenIssuer, service: AuthService) -> BackedBroker:
    return start(
        "auth_backends.1 = oauth2\nauth_backends.2 = http\nauth_backends.3 = internal\n"
        + issuer.settings
        + service.settings()
        + f"management.oauth_enabled = true\nmanagement.oauth_provider_url = {issuer.url}\n"
        "management.oauth_client_id = page\n"
    )


@pytest.fixture
def browser(broker: BackedBroker, issuer: TokenIssuer) -> Browser:
    issuer.claims = {}
    return Browser(broker, issuer)


def test_openid_signs_a_user_in(browser: Browser) -> None:
    _, _, login = browser.visit("/queues")
    assert "/login/openid?next=/queues" in login
    status, url, page = browser.visit("/login/openid?next=/queues")
    assert (status, url) == (200, browser.base + "/queues")
    assert "ann" in page
    assert browser.visit("/admin")[:2] == (200, browser.base + "/admin")


def test_a_user_without_a_tag_is_not_let_in(browser: Browser, issuer: TokenIssuer) -> None:
    issuer.claims = {"scopes": ("read:*/*",)}
    status, _, page = browser.visit("/login/openid")
    assert status == 401
    assert "Not management user" in page
    assert "/login" in browser.visit("/queues")[1]


def test_a_code_that_this_browser_did_not_ask_for_is_refused(
    browser: Browser, broker: BackedBroker, issuer: TokenIssuer
) -> None:
    other = Browser(broker, issuer)
    address = issuer.authorize({
        "redirect_uri": f"{browser.base}/login/openid/callback", "state": "made up",
        "code_challenge": "x", "code_challenge_method": "S256",
    })  # fmt: skip
    path = address.removeprefix(browser.base)
    assert other.visit(path)[0] == 400
    assert "/login" in other.visit("/queues")[1]


def test_users_of_a_service_sign_in_with_their_password(
    browser: Browser, service: AuthService
) -> None:
    service.users = {"bob": ("pear", "monitoring")}
    status, url, page = browser.visit("/login", username="bob", password="pear", next="/queues")
    assert (status, url) == (200, browser.base + "/queues")
    assert "bob" in page
    assert browser.visit("/nodes")[0] == 200
    browser.cookies.clear()
    assert browser.visit("/login", username="bob", password="apple", next="/")[0] == 401


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ("management.oauth_client_id = x\n", "management.oauth_provider_url"),
        ("management.oauth_provider_url = https://x.example\n", "management.oauth_client_id"),
        (
            "management.oauth_client_id = x\nmanagement.oauth_provider_url = https://x.example\n",
            "management.oauth_enabled",
        ),
    ],
)
def test_a_page_login_that_cannot_work_is_refused_at_the_start(
    tmp_path_factory: pytest.TempPathFactory, lines: str, key: str
) -> None:
    config = f"management.oauth_enabled = true\n{lines}"
    broker = BackedBroker(tmp_path_factory.mktemp("page"), config)
    assert broker.launch().wait(WITHIN_S) != 0
    assert f"{key}: " in broker.log()
