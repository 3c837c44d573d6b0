"""Emacs with agent-shell: the Lisp file that puts conductor into it.

agent-shell is configured in the user's own Lisp, which nobody but the user can edit safely. So
conductor writes a file of its own, and the user's init file loads it by one line. Pure: values in,
text out.
"""

from __future__ import annotations

from collections.abc import Sequence


def literal(text: str) -> str:
    """An Emacs Lisp string that means exactly this text.

    Printable ASCII stays, the quote and the backslash behind a backslash; every other character is
    written by number.
    """
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file name that is no UTF-8 (PEP 383)
        return f"\\{number - 0xDC00:03o}"
    return f"\\U{number:08x}"


def values(words: Sequence[str]) -> str:
    """The strings of a Lisp list, one a line."""
    return "\n    ".join(map(literal, words))


def agent_shell(key: str, title: str, command: Sequence[str]) -> str:
    """The code that adds an agent to agent-shell, and a command that starts it.

    Args:
        key: The agent's identifier in agent-shell; a symbol without odd characters.
        title: The title for the user.
        command: The command that agent-shell starts.
    """
    symbol = _symbol(key)
    return f"""\
(defconst {symbol}-command
  '({values(command)})
  "What `{symbol}' starts.")

(defun {symbol}-config ()
  "The agent of conductor, for agent-shell."
  (agent-shell-make-agent-config
   :identifier '{key}
   :mode-line-name {literal(title)}
   :buffer-name {literal(title)}
   :shell-prompt {literal(title + "> ")}
   :shell-prompt-regexp (regexp-quote {literal(title + "> ")})
   ;; Not by `agent-shell-command-prefix', which may itself be a conductor.
   :client-maker (lambda (&optional buffer)
                   (acp-make-client :command (car {symbol}-command)
                                    :command-params (cdr {symbol}-command)
                                    :context-buffer buffer))))

(defun {symbol} ()
  "Start a shell with the agent of conductor."
  (interactive)
  (require 'agent-shell)
  (agent-shell-start :config ({symbol}-config)))

(defvar {symbol}-listed nil
  "Whether agent-shell lists the agent already.")

(with-eval-after-load 'agent-shell
  (unless {symbol}-listed
    (setq {symbol}-listed t)
    (let ((others agent-shell-agent-configs))
      (setq agent-shell-agent-configs
            (if (functionp others)
                (lambda () (cons ({symbol}-config) (funcall others)))
              (cons ({symbol}-config) others))))))
"""


def agent_shell_wrap(key: str, wrapped: str, prefix: Sequence[str]) -> str:
    """The code that puts conductor in front of one agent of agent-shell.

    `agent-shell-command-prefix` would do it for all agents, and also for each program that an agent
    asks Emacs to run.
    """
    symbol = f"conductor-acp-wrap-{key}"
    return f"""\
(defun {symbol} (arguments)
  "Put conductor in front of the agent's command in ARGUMENTS of `acp-make-client'."
  (let* ((prefix
          '({values(prefix)}))
         (buffer (or (plist-get arguments :context-buffer) (current-buffer)))
         (command (cons (plist-get arguments :command) (plist-get arguments :command-params)))
         (wrapped (append prefix command)))
    (if (eq (cdr (assq :identifier (agent-shell-get-config buffer)))
            (intern {literal(wrapped)}))
        (append (list :command (car wrapped) :command-params (cdr wrapped)) arguments)
      arguments)))

(with-eval-after-load 'agent-shell
  (if (fboundp 'agent-shell-get-config)
      (advice-add 'acp-make-client :filter-args #'{symbol})
    (display-warning 'conductor "This agent-shell is too old for conductor to wrap an agent"
                     :error)))
"""


def _symbol(key: str) -> str:
    return "conductor-acp" if key == "conductor" else f"conductor-acp-{key}"
