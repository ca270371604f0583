"""Run the pipeline that a TOML file declares, for spark-submit; all of its schedule.

spark-submit --master URL declared.py orders.toml
"""

import sys

from pyspark_servicebus.pipelines.declared.running import main

if __name__ == "__main__":
    sys.exit(main())
