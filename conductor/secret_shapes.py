"""The shapes of secrets: the one table of `redact`, traces, rings, logs, reports and `pack`.

`components/redact/shapes.py` is a copy of this file, for a sandboxed component has its own folder
only. A test compares the copy, and checks all readers of this table by one list of secrets.
"""

SHAPES = {
    "private-key": r"-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY-----"
    r"(?:[\s\S]*?-----END [A-Z0-9 ]{0,64}PRIVATE KEY-----|[\s\S]*)",
    "aws-key": r"A(?<=\bA)(?:KIA|SIA)[0-9A-Z]{16}\b",
    "github-token": r"g(?<=\bg)(?:h[pousr]_\w{36,}|ithub_pat_\w{22,})",
    "gitlab-token": r"glpat-(?<=\bglpat-)[\w-]{20,}",
    "slack-token": r"xox(?<=\bxox)[abeoprs]-[\w-]{10,}",
    "api-key": r"[srpAh](?<=\b[srpAh])(?:(?<=[srp])k[-_](?=[\w-]{0,256}\d)[\w-]{20,}"
    r"|(?<=A)Iza[\w-]{35}|(?<=h)f_\w{34,})",
    "package-token": r"[np](?<=\b[np])(?:(?<=n)pm_\w{36,}|(?<=p)ypi-[\w-]{50,})",
    "jwt": r"eyJ(?<=\beyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}",
    "bearer": r"[Bb](?<=\b[Bb])(?:earer\s+|asic\s+(?=\S{0,256}[A-Z])(?=\S{0,256}[\d=])"
    r"(?=(?:[A-Za-z0-9+/]{4}){3,}(?:[A-Za-z0-9+/]{2}[A-Za-z0-9+/=]=)?(?![\w+/=])))"
    r"([\w.~+/=-]{16,})",
    "url-password": r"://(?<=[a-z0-9+.-]://)[^\s:/@]{1,256}:([^\s/@]+)@",
    "url-signature": r"[?&](?:sig|(?:X-[A-Z][a-z]{2,8}-)?[Ss]ignature)=(?=[\w.~%+/=-]{16})"
    r"(?=[^\s&]{0,256}\d)([\w.~%+/=-]+)",
    "assignment": r"[pPsStTaA](?:(?<=[pP])(?i:assword|asswd)|(?<=[sS])(?i:ecret)|(?<=[tT])(?i:oken)"
    r"|(?<=[aA])(?i:pi[_-]?key))[\"']?\s{0,8}[:=]\s{0,8}"
    r"[\"']?(?=\S{0,256}\d)([^\s\"',;&<>(){}\[\]]{8,})",
}
"""By kind. Of a pattern with a group, the group is the secret.

Each pattern begins with a sign or a few, for signs are sought quickly in a long text; the condition
in front of them, such as the end of a word (`\\b`), is checked behind them.
"""

NAMED = ("bearer", "url-password", "url-signature", "assignment")
"""Kinds that the text in front of them gives away. Other kinds are recognised by themselves."""

HINTS = (
    "PRIVATE KEY-----", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "xox", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "AIza", "hf_", "npm_", "pypi-",
    "eyJ", "earer", "asic", "://", "sig=", "ignature=",
)  # fmt: skip
"""A text without any of these holds no secret of these shapes, unless it holds one of `WORDS`, in
letters of either case. To look for them takes a fraction of the time."""
WORDS = ("passw", "secret", "token", "api_key", "api-key", "apikey")
