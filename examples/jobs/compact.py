"""Put the small files of a capture together, for spark-submit.

spark-submit --master URL compact.py --target ./lake --file-size 256MiB
"""

import sys

from pyspark_servicebus.pipelines.capture.compaction import main

if __name__ == "__main__":
    sys.exit(main())
