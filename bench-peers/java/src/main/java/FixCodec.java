import quickfix.DataDictionary;
import quickfix.Message;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.Arrays;

/**
 * QuickFIX/J's codec on an order and a report, read from two files with bars as separators: the
 * order from bytes to the fields that an exchange reads of it, the same with the body held against
 * the dictionary, and the report from values to bytes. Each is warmed up, then timed in turns.
 * Prints "RESULT" and the medians in nanoseconds per message, in this order, and the lengths of
 * what has been read and written.
 */
final class FixCodec {
    private static final char SEPARATOR = '\u0001';
    private static final int WARM_UP = 200_000;

    private final DataDictionary session = new DataDictionary("FIXT11.xml");
    private final DataDictionary application = new DataDictionary("FIX50SP2.xml");
    private final byte[] order;
    private final LocalDateTime sent = LocalDateTime.of(2026, 11, 22, 9, 30, 0, 251_000_000);
    private final LocalDateTime traded = LocalDateTime.of(2026, 11, 22, 9, 30, 0, 250_000_000);
    /** What has been read and written, so that none of it can be left out. */
    private long sum;

    private FixCodec(Path order, Path report) throws Exception {
        this.order = wire(order);
        // The dictionaries are right for both samples.
        String text = new String(wire(report), StandardCharsets.ISO_8859_1);
        Message message = new Message();
        message.fromString(text, session, application, true);
        application.validate(message, true);
    }

    private static byte[] wire(Path path) throws Exception {
        String text = Files.readString(path, StandardCharsets.ISO_8859_1).strip();
        return text.replace('|', SEPARATOR).getBytes(StandardCharsets.ISO_8859_1);
    }

    public static void main(String[] arguments) throws Exception {
        FixCodec codec = new FixCodec(Path.of(arguments[0]), Path.of(arguments[1]));
        int runs = Integer.parseInt(arguments[2]);
        int messages = Integer.parseInt(arguments[3]);
        double[][] turns = new double[3][runs];
        for (int step = 0; step < 3; step++) {
            codec.time(step, WARM_UP);
        }
        for (int run = 0; run < runs; run++) {
            for (int step = 0; step < 3; step++) {
                turns[step][run] = codec.time(step, messages) / (double) messages;
            }
        }
        StringBuilder line = new StringBuilder("RESULT");
        for (double[] turn : turns) {
            Arrays.sort(turn);
            line.append(' ').append(turn[runs / 2]);
        }
        if (codec.sum == 0) {
            throw new IllegalStateException("nothing was done");
        }
        line.append(' ').append(codec.order.length).append(' ').append(codec.encode());
        System.out.println(line);
    }

    private long time(int step, int messages) throws Exception {
        long start = System.nanoTime();
        for (int i = 0; i < messages; i++) {
            sum += step == 0 ? parse(false) : step == 1 ? parse(true) : encode();
        }
        return System.nanoTime() - start;
    }

    private long parse(boolean checked) throws Exception {
        Message message = new Message();
        String text = new String(order, StandardCharsets.ISO_8859_1);
        message.fromString(text, session, application, true);
        if (checked) {
            application.validate(message, true);
        }
        BigDecimal price = message.getDecimal(44);
        return message.getString(11).length() + message.getString(55).length()
                + message.getChar(54) + message.getChar(40) + message.getChar(59)
                + message.getString(18).length() + message.getDecimal(38).longValue()
                + message.getInt(1138) + price.scale();
    }

    private int encode() throws Exception {
        Message report = new Message();
        Message.Header header = report.getHeader();
        header.setString(8, "FIXT.1.1");
        header.setString(35, "8");
        header.setInt(34, 4711);
        header.setString(49, "FAIR");
        header.setUtcTimeStamp(52, sent, true);
        header.setString(56, "MEM7");
        report.setString(37, "1000042");
        report.setString(11, "A17-043");
        report.setString(41, "A17-042");
        report.setString(17, "T81504S");
        report.setString(880, "81504");
        report.setChar(150, 'F');
        report.setChar(39, '1');
        report.setString(55, "BTCUSD");
        report.setChar(54, '2');
        report.setDecimal(38, BigDecimal.valueOf(2500));
        report.setChar(40, '2');
        report.setDecimal(44, BigDecimal.valueOf(783505, 1));
        report.setChar(59, '0');
        report.setDecimal(32, BigDecimal.valueOf(1200));
        report.setDecimal(31, BigDecimal.valueOf(783505, 1));
        report.setInt(851, 1);
        report.setDecimal(151, BigDecimal.valueOf(1300));
        report.setDecimal(14, BigDecimal.valueOf(1200));
        report.setDecimal(6, BigDecimal.valueOf(783505, 1));
        report.setUtcTimeStamp(60, traded, true);
        return report.toString().getBytes(StandardCharsets.ISO_8859_1).length;
    }
}
