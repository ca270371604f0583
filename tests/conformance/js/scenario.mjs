// Runs one named scenario of a client and prints its result as one line of JSON.
//
// A script exports nothing: it hands its scenarios to `run`, which reads the name and the
// input from the command line. What a scenario throws is printed as its error, because the
// codes of the client's own errors are what the tests look at.

export async function run(scenarios) {
  const [name, input] = process.argv.slice(2);
  let outcome;
  try {
    outcome = { result: await scenarios[name](JSON.parse(input)) };
  } catch (error) {
    outcome = { error: { name: error.name, code: error.code, condition: error.condition, text: error.message } };
  }
  process.stdout.write(JSON.stringify(outcome) + "\n", () => process.exit(0));
}
