import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

import quickfix.DataDictionary;
import quickfix.Message;
import quickfix.MessageUtils;

/**
 * Every kind of message that the exchange sends, held against the stock dictionaries of QuickFIX/J, as
 * its sessions do with what they receive: whatever is refused there, no application hears of. Reads
 * what `crates/fix/examples/samples.rs` writes. Fails when a message is refused, when there is none of
 * a kind, or when a message that was spoilt on purpose is not refused.
 */
public final class Judge {
    /** The dictionaries of one version. */
    private record Stock(DataDictionary session, DataDictionary application) {
        static Stock of(String session, String application) throws Exception {
            return new Stock(strict(session), strict(application));
        }

        private static DataDictionary strict(String name) throws Exception {
            DataDictionary dictionary = new DataDictionary(name);
            dictionary.setCheckFieldsOutOfOrder(true);
            dictionary.setCheckFieldsHaveValues(true);
            dictionary.setCheckUserDefinedFields(true);
            dictionary.setCheckUnorderedGroupFields(true);
            dictionary.setAllowUnknownMessageFields(false);
            return dictionary;
        }

        /** What is wrong with a message, or nothing. */
        String fault(String text) {
            try {
                Message message = new Message();
                message.fromString(text, session, application, true);
                if (message.getException() != null) {
                    return message.getException().toString();
                }
                if (session == application) {
                    session.validate(message);
                } else if (message.isAdmin()) {
                    session.validate(message);
                } else {
                    application.validate(message, true);
                    header(message);
                }
                return null;
            } catch (Exception refused) {
                return refused.toString();
            }
        }

        /** Header and trailer of an application message over FIXT: with no body they are a Heartbeat's. */
        private void header(Message message) throws Exception {
            Message beat = new Message();
            beat.getHeader().setFields(message.getHeader());
            beat.getHeader().setString(35, "0");
            beat.getTrailer().setFields(message.getTrailer());
            session.validate(beat);
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Stock> stock = new LinkedHashMap<>();
        stock.put("FIX.4.2", Stock.of("FIX42.xml", "FIX42.xml"));
        stock.put("FIX.4.4", Stock.of("FIX44.xml", "FIX44.xml"));
        stock.put("FIXT.1.1", Stock.of("FIXT11.xml", "FIX50SP2.xml"));
        Map<String, Map<String, Integer>> counts = new LinkedHashMap<>();
        Map<String, Integer> refused = new TreeMap<>();
        Map<String, String> first = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.ISO_8859_1)) {
            String[] parts = line.split("\t", 3);
            Map<String, Integer> kinds = counts.computeIfAbsent(parts[0], key -> new TreeMap<>());
            kinds.merge(parts[1], parts[2].isEmpty() ? 0 : 1, Integer::sum);
            if (parts[2].isEmpty()) {
                continue;
            }
            String fault = stock.get(parts[0]).fault(parts[2]);
            if (fault != null) {
                String why = parts[0] + ", " + parts[1] + ": " + fault;
                if (refused.merge(why, 1, Integer::sum) == 1) {
                    System.out.println("refused: " + why + " " + parts[2].replace('\u0001', '|'));
                }
            } else if (parts[1].equals("order taken")) {
                first.putIfAbsent(parts[0], parts[2]);
            }
        }
        boolean right = refused.isEmpty();
        refused.forEach((why, count) -> System.out.println(count + " times " + why));
        for (String version : stock.keySet()) {
            Map<String, Integer> kinds = counts.getOrDefault(version, Map.of());
            int all = kinds.values().stream().mapToInt(Integer::intValue).sum();
            System.out.println(version + ": " + all + " messages of " + kinds.size() + " kinds: " + kinds);
            right &= all > 0 && !kinds.containsValue(0);
            right &= isSpoiltSeen(stock.get(version), first.get(version), version);
        }
        System.out.println(right ? "QuickFIX/J takes them all" : "FAIL");
        System.exit(right ? 0 : 1);
    }

    /** Control: a report with a status, a field or a required field that is none is refused. */
    private static boolean isSpoiltSeen(Stock stock, String report, String version) {
        if (report == null) {
            System.out.println(version + ": no report to be spoilt");
            return false;
        }
        boolean seen = stock.fault(report) == null;
        for (String[] change : new String[][] {{"39=0", "39=Z"}, {"55=BTCUSD", "9999=BTCUSD"}, {"17=", "880="}}) {
            String spoilt = repaired(report.replaceFirst("\u0001" + change[0], "\u0001" + change[1]));
            if (spoilt.equals(report) || stock.fault(spoilt) == null) {
                System.out.println(version + ": taken although " + change[1] + " stands in the place of " + change[0]);
                seen = false;
            }
        }
        return seen;
    }

    /** A message with its length and sum set right. */
    private static String repaired(String message) {
        int body = message.indexOf("\u000135=") + 1;
        int end = message.lastIndexOf("\u000110=") + 1;
        String begin = message.substring(0, message.indexOf('\u0001') + 1);
        String whole = begin + "9=" + (end - body) + "\u0001" + message.substring(body, end);
        return whole + String.format("10=%03d\u0001", MessageUtils.checksum(whole));
    }
}
