"""How things look as JSON: functions from living objects to dictionaries."""
