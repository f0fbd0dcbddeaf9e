"""Steps of the pipeline: functions from DataFrame to DataFrame."""
