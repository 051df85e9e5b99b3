"""Report pages: one file for each kind of report, from one scoreboard."""
