//! Tags by name, each with its text as it stands on the wire.

/// A tag: its number, and `number=` as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// The number.
    pub number: u32,
    /// The number and `=`.
    pub text: &'static [u8],
    /// The text in one word, its first character in the lowest byte.
    pub(crate) word: u64,
}

impl Tag {
    const fn new(number: u32, text: &'static [u8]) -> Tag {
        // With a value of one character and its end it fits a word.
        assert!(text.len() <= 6);
        let (mut word, mut at) = (0, text.len());
        while at > 0 {
            at -= 1;
            word = word << 8 | text[at] as u64;
        }
        Tag { number, text, word }
    }
}

macro_rules! tags {
    ($($name:ident $number:literal,)*) => {
        $(
            #[doc = concat!("Tag ", stringify!($number), ".")]
            pub const $name: Tag = Tag::new($number, concat!(stringify!($number), "=").as_bytes());
        )*
    };
}

tags! {
    ACCOUNT 1, AVG_PX 6, BEGIN_SEQ_NO 7, CL_ORD_ID 11, CUM_QTY 14, END_SEQ_NO 16, EXEC_ID 17,
    EXEC_INST 18, EXEC_REF_ID 19, EXEC_TRANS_TYPE 20, HANDL_INST 21, LAST_PX 31, LAST_QTY 32,
    MSG_SEQ_NUM 34, MSG_TYPE 35, NEW_SEQ_NO 36, ORDER_ID 37, ORDER_QTY 38, ORD_STATUS 39,
    ORD_TYPE 40, ORIG_CL_ORD_ID 41, POSS_DUP_FLAG 43, PRICE 44, REF_SEQ_NUM 45, SENDER_COMP_ID 49,
    SENDING_TIME 52, SIDE 54, SYMBOL 55, TARGET_COMP_ID 56, TEXT 58, TIME_IN_FORCE 59,
    TRANSACT_TIME 60, POSS_RESEND 97, ENCRYPT_METHOD 98, STOP_PX 99, CXL_REJ_REASON 102,
    ORD_REJ_REASON 103, HEART_BT_INT 108, MIN_QTY 110, MAX_FLOOR 111, TEST_REQ_ID 112,
    ON_BEHALF_OF_COMP_ID 115, ON_BEHALF_OF_SUB_ID 116, ORIG_SENDING_TIME 122, GAP_FILL_FLAG 123,
    EXPIRE_TIME 126, DELIVER_TO_COMP_ID 128, DELIVER_TO_SUB_ID 129, RESET_SEQ_NUM_FLAG 141,
    ON_BEHALF_OF_LOCATION_ID 144, DELIVER_TO_LOCATION_ID 145, NO_RELATED_SYM 146, EXEC_TYPE 150,
    LEAVES_QTY 151, PEG_DIFFERENCE 211, MD_REQ_ID 262, SUBSCRIPTION_REQUEST_TYPE 263,
    MARKET_DEPTH 264, MD_UPDATE_TYPE 265, AGGREGATED_BOOK 266, NO_MD_ENTRY_TYPES 267,
    NO_MD_ENTRIES 268, MD_ENTRY_TYPE 269, MD_ENTRY_PX 270, MD_ENTRY_SIZE 271, MD_ENTRY_ID 278,
    MD_UPDATE_ACTION 279, MD_REQ_REJ_REASON 281, MD_ENTRY_REF_ID 280, NUMBER_OF_ORDERS 346,
    SECURITY_REQ_ID 320, SECURITY_RESPONSE_ID 322, TRAD_SES_REQ_ID 335, TRADING_SESSION_ID 336,
    TRAD_SES_STATUS 340, REF_TAG_ID 371, REF_MSG_TYPE 372, SESSION_REJECT_REASON 373,
    EXEC_RESTATEMENT_REASON 378, BUSINESS_REJECT_REF_ID 379, BUSINESS_REJECT_REASON 380,
    CXL_REJ_RESPONSE_TO 434, NO_PARTY_IDS 453, USERNAME 553, PASSWORD 554,
    SECURITY_LIST_REQUEST_TYPE 559, SECURITY_REQUEST_RESULT 560, MIN_TRADE_VOL 562,
    MASS_CANCEL_REQUEST_TYPE 530, MASS_CANCEL_RESPONSE 531, MASS_CANCEL_REJECT_REASON 532,
    TOTAL_AFFECTED_ORDERS 533, NEXT_EXPECTED_MSG_SEQ_NUM 789,
    LAST_LIQUIDITY_IND 851, TRD_MATCH_ID 880, LAST_FRAGMENT 893, MIN_PRICE_INCREMENT 969,
    DISPLAY_QTY 1138, APPL_VER_ID 1128, DEFAULT_APPL_VER_ID 1137,
    MASS_ACTION_REPORT_ID 1369, TOT_NO_RELATED_SYM 393, MD_ENTRY_POSITION_NO 290,
    SELF_MATCH_PREVENTION_INSTRUCTION 2964,
}
