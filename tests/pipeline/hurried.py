"""Settings for sessions of tests, whose jobs are tiny: to compile them takes longer than to run them."""

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Spark's classes are what they were in the last test.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
HURRIED = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# For a command.
HURRIED_OPTIONS = [word for key, value in HURRIED.items() for word in ("--conf", f"{key}={value}")]
