"""The example is a project of its own: its tests are run by the tests about it."""

collect_ignore = ["example"]
