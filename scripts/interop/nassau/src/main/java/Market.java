import com.paritytrading.nassau.soupbintcp.SoupBinTCP;
import com.paritytrading.nassau.soupbintcp.SoupBinTCPClient;
import com.paritytrading.nassau.soupbintcp.SoupBinTCPClientStatusListener;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * A participant on other people's protocol libraries: orders by OUCH 5.0 through Nassau's
 * SoupBinTCP, packed by hand as the specification lays them out, beside the live feed. It works
 * through orders' lives, is cut off, logs in at another gateway for the whole stream again, and at
 * the end holds what it was told against what the feed made public.
 *
 * <p>Arguments: port base of the exchange, file for the best prices (position, symbol, bid, bid
 * quantity, offer, offer quantity, when they change).
 */
public final class Market {
    private static final int ROUNDS = 40;
    private static final long DONE_IN_NS = 60_000_000_000L;
    private static final long ANSWER_IN_NS = 5_000_000_000L;

    /** What a session of ours says of itself. */
    private static final class Status implements SoupBinTCPClientStatusListener {
        boolean on;
        boolean refused;
        long next;

        @Override
        public void heartbeatTimeout(SoupBinTCPClient session) throws IOException {
            throw new IOException("the gateway is silent");
        }

        @Override
        public void loginAccepted(SoupBinTCPClient session, SoupBinTCP.LoginAccepted accepted) {
            on = true;
            next = accepted.getSequenceNumber();
        }

        @Override
        public void loginRejected(SoupBinTCPClient session, SoupBinTCP.LoginRejected rejected) {
            refused = true;
        }

        @Override
        public void endOfSession(SoupBinTCPClient session) {
            on = false;
        }
    }

    private final int base;
    private final Feed feed;
    private final long end = System.nanoTime() + DONE_IN_NS;
    private final List<byte[]> stream = new ArrayList<>();
    private final Deque<ByteBuffer> unread = new ArrayDeque<>();
    private SoupBinTCPClient client;
    private Status status;
    private int number;

    private Market(int base, PrintWriter quotes) throws IOException {
        this.base = base;
        feed = new Feed(base + 300, new InetSocketAddress("127.0.0.1", base), quotes);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    /** Lets both connections work once. */
    private void pump() throws IOException {
        check(System.nanoTime() < end, "the dialogue takes too long, at message " + feed.messages);
        boolean busy = feed.receive();
        if (client != null) {
            busy |= client.receive() > 0;
            client.keepAlive();
        }
        if (!busy) {
            Thread.onSpinWait();
        }
    }

    private void pumpFor(long millis) throws IOException {
        long until = System.nanoTime() + millis * 1_000_000;
        while (System.nanoTime() < until) {
            pump();
        }
    }

    /** Logs in at a gateway for the stream from its first message on; tries again while it is taken. */
    private void login(int gateway) throws IOException {
        long until = System.nanoTime() + ANSWER_IN_NS;
        do {
            check(System.nanoTime() < until, "the login is refused");
            SocketChannel channel =
                SocketChannel.open(new InetSocketAddress("127.0.0.1", base + gateway));
            channel.configureBlocking(false);
            stream.clear();
            unread.clear();
            status = new Status();
            client = new SoupBinTCPClient(channel, 1_024, this::told, status);
            SoupBinTCP.LoginRequest request = new SoupBinTCP.LoginRequest();
            request.setUsername("GUEST");
            request.setPassword("welcome");
            request.setRequestedSession("");
            request.setRequestedSequenceNumber(1);
            client.login(request);
            while (!status.on && !status.refused) {
                check(System.nanoTime() < until, "the login has no answer");
                pump();
            }
            if (status.refused) {
                client.close();
                client = null;
                pumpFor(100);
            }
        } while (client == null);
        check(status.next == 1, "the stream begins at " + status.next);
    }

    private void told(ByteBuffer message) {
        byte[] bytes = new byte[message.remaining()];
        message.get(bytes);
        stream.add(bytes);
        unread.add(ByteBuffer.wrap(bytes));
    }

    /** The next message about a request, which has to be of one of these types. */
    private ByteBuffer answer(int about, String types) throws IOException {
        long until = System.nanoTime() + ANSWER_IN_NS;
        while (unread.isEmpty()) {
            check(System.nanoTime() < until, "request " + about + " has no answer");
            pump();
        }
        ByteBuffer message = unread.remove();
        char type = (char) message.get(0);
        int user = message.getInt(type == 'U' ? 13 : 9);
        check(types.indexOf(type) >= 0 && user == about,
            "request " + about + " is answered by " + type + " of " + user);
        return message;
    }

    private void send(ByteBuffer message) throws IOException {
        message.flip();
        client.send(message);
    }

    private static void text(ByteBuffer to, String text, int length) {
        byte[] bytes = Arrays.copyOf(text.getBytes(StandardCharsets.US_ASCII), length);
        Arrays.fill(bytes, text.length(), length, (byte) ' ');
        to.put(bytes);
    }

    private int enter(int lots, long price, char life) throws IOException {
        ByteBuffer order = ByteBuffer.allocate(64).put((byte) 'O').putInt(++number).put((byte) 'B');
        order.putInt(lots);
        text(order, "GENA", 8);
        order.putLong(price).put((byte) life);
        text(order, "YPNN", 4);
        text(order, "round" + number, 14);
        send(order.putShort((short) 0));
        return number;
    }

    private int replace(int orig, int lots, long price) throws IOException {
        ByteBuffer order = ByteBuffer.allocate(64).put((byte) 'U').putInt(orig).putInt(++number);
        order.putInt(lots).putLong(price);
        text(order, "0YN", 3);
        text(order, "again" + number, 14);
        send(order.putShort((short) 0));
        return number;
    }

    private void cancel(int order, int left) throws IOException {
        send(ByteBuffer.allocate(16).put((byte) 'X').putInt(order).putInt(left));
    }

    /** One order's life far from the market, then one that takes what is there. */
    private void round(int round) throws IOException {
        long price = 10_0000 + 100L * round;
        int first = enter(100, price, '0');
        ByteBuffer accepted = answer(first, "A");
        check(accepted.getInt(14) == 100 && accepted.getLong(26) == price, "terms of an acceptance");
        int second = replace(first, 120, price - 100);
        ByteBuffer replaced = answer(second, "U");
        check(replaced.getInt(9) == first && replaced.getInt(18) == 120, "terms of a replacement");
        cancel(second, 50);
        check(answer(second, "C").getInt(13) == 70, "a cancel in part takes 70 lots");
        cancel(second, 0);
        check(answer(second, "C").getInt(13) == 50, "a cancel takes the other 50 lots");
        cancel(second, 0);
        answer(second, "I");
        ByteBuffer rejected = answer(enter(5, price + 1, '0'), "J");
        check(rejected.getShort(13) == 0x1D, "a price off the tick has another reason");
        int taker = enter(3, 1000_0000, '3');
        if (answer(taker, "AJ").get(0) == 'A') {
            for (int open = 3; open > 0; ) {
                ByteBuffer told = answer(taker, "EC");
                open -= told.getInt(13);
                check(open >= 0, "more is gone than was entered");
            }
        }
    }

    /** What the stream says, held against the feed; how many facts agreed and how many fills. */
    private long[] compare() {
        Set<Integer> resting = new HashSet<>();
        long facts = 0;
        long fills = 0;
        for (byte[] bytes : stream) {
            ByteBuffer message = ByteBuffer.wrap(bytes);
            switch ((char) message.get(0)) {
                case 'A' -> {
                    if (message.get(34) != '0') {
                        break;
                    }
                    Feed.Added added = feed.added.get(message.getLong(36));
                    check(new Feed.Added("GENA", (byte) 'B', message.getInt(14), message.getLong(26))
                        .equals(added), "order " + message.getInt(9) + " is on the feed as " + added);
                    facts++;
                }
                case 'U' -> {
                    long reference = message.getLong(40);
                    Feed.Replaced replaced = feed.replaced.get(reference);
                    check(replaced != null && replaced.shares() == message.getInt(18)
                        && replaced.price() == message.getLong(30), "a replace is on the feed as "
                        + replaced);
                    check(feed.added.containsKey(replaced.old()), "of an order nobody entered");
                    check(feed.canceled.getOrDefault(reference, 0L) == 70
                        && feed.deleted.containsKey(reference), "two cancels are on the feed");
                    resting.add(message.getInt(13));
                    facts += 3;
                }
                case 'E' -> {
                    Feed.Traded traded = feed.traded.get(message.getLong(26));
                    check(new Feed.Traded(message.getInt(13), message.getLong(17)).equals(traded),
                        "trade " + message.getLong(26) + " is on the feed as " + traded);
                    facts++;
                    fills++;
                }
                default -> { }
            }
        }
        check(resting.size() >= ROUNDS, resting.size() + " orders were replaced");
        return new long[] {facts, fills};
    }

    private void play() throws IOException {
        pumpFor(300);
        login(1);
        for (int round = 0; round < ROUNDS; round++) {
            round(round);
        }
        List<byte[]> before = new ArrayList<>(stream);
        client.close();
        client = null;
        login(2);
        long until = System.nanoTime() + ANSWER_IN_NS;
        while (stream.size() < before.size()) {
            check(System.nanoTime() < until, "the stream is shorter than before");
            pump();
        }
        for (int at = 0; at < before.size(); at++) {
            check(Arrays.equals(before.get(at), stream.get(at)), "message " + (at + 1) + " changed");
        }
        client.logout();
        client.close();
        client = null;
        while (!feed.ended) {
            pump();
        }
        long[] agreed = compare();
        check(feed.requests > 0 && feed.lost > 0, "no packet was lost, or none was asked for");
        check(agreed[1] > 0, "nothing traded");
        System.out.println("Nassau and Juncture: " + feed.messages + " messages " + feed.types + ", "
            + feed.lost + " packets thrown away, " + feed.requests + " requests, " + feed.gaps
            + " gaps filled; " + before.size() + " sequenced packets, the same from another gateway; "
            + agreed[0] + " facts of the stream are on the feed, " + agreed[1] + " fills among them");
    }

    /** The snapshot server listens once all other doors do. */
    private static void await(int port) throws Exception {
        long until = System.nanoTime() + DONE_IN_NS;
        while (true) {
            try (SocketChannel door = SocketChannel.open(new InetSocketAddress("127.0.0.1", port))) {
                return;
            } catch (IOException closed) {
                check(System.nanoTime() < until, "no exchange at port " + port);
                Thread.sleep(50);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        int base = Integer.parseInt(args[0]);
        await(base + 299);
        try (PrintWriter quotes = new PrintWriter(args[1])) {
            new Market(base, quotes).play();
        }
    }
}
