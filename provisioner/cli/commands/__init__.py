"""What a person asks for once, beside the running controller: `plan`, `check`, `gc`, `adopt`, `release`.

The same connections, ownership and rules as the controller's, read once; never the lease, never a write to ARM
(one leader writes there). Each write is on an object that the person named or saw in a table.

    command.py   settings, exit codes            removals.py    what would go by inference, as values
    flags.py     what can be written, and --help gc.py          the table of it, and `--confirm`
    console.py   out, err, and who may be asked  confirming.py  the confirmation, on the leader's Lease
    refusal.py   a cause, a remedy, a code       adopt.py       a claim takes its pool back
    clients.py   connections; one look at all    release.py     our finalizers off, once the pool is gone for good
    tables.py    columns                         plan.py        what a claim would become, printed
    findings.py  lines of `check`                check.py       all of it; check_kubernetes.py, check_azure.py
                                                 planning.py    the same as values; manifests.py reads the claims
"""
