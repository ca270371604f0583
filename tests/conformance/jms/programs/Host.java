import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/**
 * Runs the programs of this folder one after the other in one warm virtual machine.
 *
 * A line on standard input names a program and its arguments, separated by tabs; the answer is one
 * line: "ok" or "failed", a tab, and what the program printed, in Base64.
 */
public final class Host {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader asked =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream out = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(out);
            String verdict = "ok";
            try {
                run(words[0], Arrays.copyOfRange(words, 1, words.length));
            } catch (Throwable failure) {
                verdict = "failed";
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                out.print(trace);
            }
            String text = Base64.getEncoder().encodeToString(printed.toByteArray());
            answers.println(verdict + "\t" + text);
            answers.flush();
        }
    }

    private static void run(String name, String[] arguments) throws Throwable {
        Method main = Class.forName(name).getMethod("main", String[].class);
        try {
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }
}
