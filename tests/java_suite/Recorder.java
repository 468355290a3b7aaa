import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the test classes that are named, and writes a line for each event of each test. */
public class Recorder extends RunListener {
  public static void main(String[] classes) throws Exception {
    JUnitCore core = new JUnitCore();
    core.addListener(new Recorder());
    for (String name : classes) {
      core.run(Class.forName(name));
    }
    System.out.flush();
    Runtime.getRuntime().halt(0);  // Some tests leave threads behind.
  }

  private static void tell(String event, Description test, String detail) {
    String line = detail == null ? "" : detail.replaceAll("\\s+", " ");
    System.out.println("@@\t" + event + "\t" + test.getMethodName() + "\t" + line);
    System.out.flush();
  }

  @Override
  public void testStarted(Description test) {
    tell("started", test, "");
  }

  @Override
  public void testFinished(Description test) {
    tell("finished", test, "");
  }

  @Override
  public void testFailure(Failure failure) {
    tell("failed", failure.getDescription(), String.valueOf(failure.getException()));
    System.out.println(failure.getTrace());
  }

  @Override
  public void testAssumptionFailure(Failure failure) {
    tell("skipped", failure.getDescription(), failure.getMessage());
  }

  @Override
  public void testIgnored(Description test) {
    tell("skipped", test, "ignored");
  }
}
