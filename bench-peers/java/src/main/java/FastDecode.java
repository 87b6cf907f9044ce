import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.openfast.Context;
import org.openfast.Message;
import org.openfast.codec.FastDecoder;
import org.openfast.template.Field;
import org.openfast.template.MessageTemplate;
import org.openfast.template.loader.XMLMessageTemplateLoader;

/**
 * OpenFAST on a stream of FAST for OPRA: packets behind their lengths, messages behind theirs. Every
 * value goes into the same checksum as the Rust side's. Prints the nanoseconds of the timed pass,
 * after one to warm up, and the checksum.
 */
public final class FastDecode {
    private static final long PRIME = 0x100000001B3L;
    private static final long[] WEIGHTS = new long[64];
    /** The slots of each category, without those appended to quotes. */
    private static final int[][] SLOTS = new int[128][];

    /** Bytes between two places of an array. */
    private static final class Slice extends InputStream {
        private final byte[] bytes;
        private int at;
        private int end;

        Slice(byte[] bytes) {
            this.bytes = bytes;
        }

        @Override
        public int read() {
            return at < end ? bytes[at++] & 0xFF : -1;
        }

        @Override
        public int available() {
            return end - at;
        }
    }

    private static int[] slots(int... slots) {
        return slots;
    }

    static {
        for (int at = 0; at < 64; at++) {
            WEIGHTS[at] = (at + 1) * 0x9E3779B97F4A7C15L | 1;
        }
        SLOTS['k'] = slots(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 25, 26, 27, 28, 29, 30);
        SLOTS['a'] = slots(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 29);
        SLOTS['d'] = slots(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14);
        SLOTS['f'] = slots(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21,
                22, 23, 24, 25, 27);
        SLOTS['F'] = slots(0, 1, 2, 3, 4, 5, 6, 8, 12, 13, 14, 17, 18, 19, 20, 21, 22, 24);
        SLOTS['O'] = slots(0, 1, 2, 3, 4, 5, 6, 8, 12, 13, 16);
        SLOTS['U'] = slots(0, 1, 2, 3, 4, 5, 6, 8, 12, 25, 27);
        SLOTS['Y'] = slots(0, 1, 2, 3, 4, 5, 39, 41, 42);
        SLOTS['C'] = SLOTS['H'] = slots(0, 1, 2, 3, 4, 5, 48);
    }

    public static void main(String[] arguments) throws Exception {
        byte[] stream = Files.readAllBytes(Paths.get(arguments[0]));
        byte[] templates = Files.readAllBytes(Paths.get(arguments[1]));
        // A part of the stream is enough to warm up.
        pass(stream, templates, Math.min(stream.length, 8 << 20));
        long start = System.nanoTime();
        long sum = pass(stream, templates, stream.length);
        System.out.println("RESULT " + (System.nanoTime() - start) + " "
                + String.format("%016x", sum));
    }

    private static long pass(byte[] stream, byte[] xml, int until) {
        XMLMessageTemplateLoader loader = new XMLMessageTemplateLoader();
        loader.setLoadTemplateIdFromAuxId(true);
        MessageTemplate[] templates = loader.load(new ByteArrayInputStream(xml));
        Context context = new Context();
        int[][] slotOf = new int[128][];
        for (MessageTemplate template : templates) {
            int id = Integer.parseInt(template.getId());
            context.registerTemplate(id, template);
            // The first field of a template is its identifier.
            slotOf[id] = new int[template.getFieldCount()];
            for (int at = 1; at < template.getFieldCount(); at++) {
                Field field = template.getField(at);
                slotOf[id][at] = field.getId() == null ? -1 : Integer.parseInt(field.getId());
            }
        }
        Slice slice = new Slice(stream);
        FastDecoder decoder = new FastDecoder(context, slice);
        long[] values = new long[64];
        long sum = 0;
        int at = 0;
        while (at + 2 < until) {
            int end = at + 2 + ((stream[at] & 0xFF) << 8 | stream[at + 1] & 0xFF);
            context.reset();
            int next = at + 2 + 15;
            while (next + 1 < end) {
                int length = stream[next] & 0xFF;
                slice.at = next + 1;
                slice.end = next + 1 + length;
                Message message = decoder.readMessage();
                int category = Integer.parseInt(message.getTemplate().getId());
                values[0] = category;
                int[] slots = slotOf[category];
                for (int field = 1; field < slots.length; field++) {
                    int slot = slots[field];
                    if (slot == 48) {
                        values[slot] = hash(message.getString(field));
                    } else if (slot == 6 || slot == 41 || slot == 42) {
                        values[slot] = text(message.getString(field));
                    } else if (slot >= 0 && slot < 64) {
                        values[slot] = message.getLong(field);
                    }
                }
                sum = (sum ^ sumOf(category, values)) * PRIME;
                next += 1 + length;
            }
            at = end;
        }
        return sum;
    }

    private static long text(String text) {
        long value = 0;
        for (int at = 0; at < text.length(); at++) {
            value = value << 8 | text.charAt(at);
        }
        return value;
    }

    private static long hash(String text) {
        long value = 0xCBF29CE484222325L;
        for (int at = 0; at < text.length(); at++) {
            value = (value ^ text.charAt(at)) * PRIME;
        }
        return value;
    }

    private static long sumOf(int category, long[] values) {
        long sum = 0;
        for (int slot : SLOTS[category]) {
            sum += values[slot] * WEIGHTS[slot];
        }
        if (category == 'k') {
            char bbo = (char) values[30];
            boolean bid = bbo == 'M' || bbo == 'N' || bbo == 'P' || bbo == 'O';
            boolean offer = bbo == 'C' || bbo == 'G' || bbo == 'K' || bbo == 'O';
            for (int slot = 31; bid && slot < 35; slot++) {
                sum += values[slot] * WEIGHTS[slot];
            }
            for (int slot = 35; offer && slot < 39; slot++) {
                sum += values[slot] * WEIGHTS[slot];
            }
        }
        return sum;
    }
}
