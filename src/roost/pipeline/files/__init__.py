"""Users' own files, CSV, JSON lines and Parquet, as tables of the pipeline."""
