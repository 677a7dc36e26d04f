"""What Spark needs to know of where its tests run."""

import sys

#: Variables that Spark and its Python workers need here, also in processes that tests start.
SETTINGS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "POLARS_MAX_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "SPARK_SCALA_VERSION": "2.13",  # which `local-cluster` would look for in a folder of its own
}
