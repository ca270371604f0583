"""Capture a queue or subscription as Parquet or Delta, for spark-submit.

spark-submit --master URL capture.py --entity orders --target ./lake --connection-string-ref env:BUS
"""

import sys

from pyspark_servicebus.pipelines.capture import main

if __name__ == "__main__":
    sys.exit(main())
