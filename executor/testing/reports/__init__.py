"""Reports: what came of a run of scenarios, for people, programs, CI servers and browsers.

All of them are made from one `Outcome`, and none decides anything. Whatever scenarios and targets
say is written so that it cannot pass for words of ours.
"""
