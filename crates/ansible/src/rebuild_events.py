# The events of a run, one JSON object a line, each with the word that tells it from anything else printed.
# Of a result only its message goes on: the rest may hold what a task was given.
from __future__ import annotations

DOCUMENTATION = """
name: rebuild_events
type: stdout
short_description: Events for rebuild
description: One JSON object for each event.
"""

import json
import sys

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "rebuild_events"

    def _tell(self, event, **fields):
        fields["rebuild"] = event
        sys.stdout.write(json.dumps(fields, default=str) + "\n")
        sys.stdout.flush()

    def _result(self, status, result, ignored=False):
        said = result._result
        hidden = said.get("_ansible_no_log", False)
        message = "" if hidden else str(said.get("msg", "") or "")
        if not hidden and status == "failed":
            # "non-zero return code" alone helps nobody.
            printed = str(said.get("stderr", "") or said.get("stdout", "") or "").strip()
            message = ": ".join(part for part in (message, printed) if part)
        self._tell(
            "result",
            host=result._host.get_name(),
            task=result._task.get_name(),
            status=status,
            ignored=bool(ignored),
            message=message,
        )

    def v2_playbook_on_play_start(self, play):
        # `hosts` are those of this play, `within` all that the limit leaves: what a run is judged by. Both whatever
        # batch of the play is at work, to which the inventory is restricted by now.
        inventory = play.get_variable_manager()._inventory
        self._tell(
            "play",
            name=play.get_name(),
            hosts=[host.get_name() for host in inventory.get_hosts(play.hosts, ignore_restrictions=True)],
            within=[host.get_name() for host in inventory.get_hosts("all", ignore_restrictions=True)],
        )

    def v2_playbook_on_no_hosts_matched(self):
        self._tell("no-hosts")

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._tell("task", name=task.get_name())

    def v2_playbook_on_handler_task_start(self, task):
        self._tell("task", name=task.get_name())

    def v2_runner_on_ok(self, result):
        self._result("changed" if result._result.get("changed", False) else "ok", result)

    def v2_on_file_diff(self, result):
        said = result._result
        if said.get("_ansible_no_log", False):
            return
        found = [one.get("diff") for one in said.get("results", []) if one.get("changed")] if "results" in said else [said.get("diff")]
        for diff in found:
            text = self._get_diff(diff) if diff else ""
            if text:
                self._tell("diff", host=result._host.get_name(), task=result._task.get_name(), text=text)

    def v2_runner_on_skipped(self, result):
        self._result("skipped", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._result("failed", result, ignore_errors)

    def v2_runner_on_unreachable(self, result):
        self._result("unreachable", result, getattr(result._task, "ignore_unreachable", False))

    def v2_playbook_on_stats(self, stats):
        hosts = {}
        for host in sorted(stats.processed):
            found = stats.summarize(host)
            hosts[host] = {
                "ok": found["ok"],
                "changed": found["changed"],
                "failed": found["failures"],
                "unreachable": found["unreachable"],
                "skipped": found["skipped"],
                "rescued": found["rescued"],
                "ignored": found["ignored"],
            }
        self._tell("recap", hosts=hosts)
