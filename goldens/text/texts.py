"""The texts and prompts the goldens of `nino-text` are made of."""

import random
import unicodedata

WORDS = """a an the of in on with under and by for from portrait photo painting watercolor oil ink sketch render studio
light lighting soft hard rim golden hour sunset dawn misty foggy forest mountain river ocean castle village street
neon cyberpunk steampunk baroque minimalist isometric macro bokeh cinematic wide-angle close-up full-body highly
detailed intricate masterpiece best quality 4k 8K HDR UHD trending artstation unreal engine octane volumetric red fox
snow owl dragon astronaut horse robot girl boy woman man elderly child wearing hat kimono armor crystal glass
translucent holographic iridescent porcelain f/1.8 35mm 50mm ISO-400 Kodak Portra don't it's we're they've I'm she'll
he'd rock'n'roll O'Brien o'clock e.g. i.e. etc. #hashtag @user user_name foo__bar 3.14 1,000,000 $5 100% C++ AT&T
supercalifragilisticexpialidocious antidisestablishmentarianism Llanfairpwllgwyngyll""".split()
LANGUAGES = [
    "ein rotes Fuchsmädchen im Schnee, groß, süß, Straße, ÄÖÜ ẞ",
    "un café à Montréal, l'été, où naïve cœur ÇA Ÿ",
    "niño pequeño ¿qué? ¡olé! mañana CORAZÓN",
    "um coração, ilusão, àéîõü",
    "zażółć gęślą jaźń ŁÓDŹ",
    "příliš žluťoučký kůň úpěl ďábelské ódy",
    "İstanbul'da ILIK ışık ığdır",
    "Þórður ætíð Ðað øre ÅNGSTRÖM",
    "κόσμος ΟΔΥΣΣΕΥΣ ΣΣ ς σ Ὀδυσσεύς",
    "красная лиса в СНЕГУ, ёлка, Їжак",
    "雪の中の赤い狐、美しい、ﾊﾝｶｸ ｶﾞ が が",
    "雪中的红狐狸,高质量,杰作，【水墨画】",
    "눈 속의 붉은 여우 한국어 각",
    "ثعلب أحمر في الثلج، جميلة ١٢٣",
    "שועל אדום בשלג שָׁלוֹם",
    "बर्फ में लाल लोमड़ी क्ष त्र १२३",
    "จิ้งจอกแดงในหิมะ สวยงาม ๑๒๓",
    "cáo đỏ trong tuyết, Việt Nam, NGƯỜI",
    "ተኩላ በበረዶ ውስጥ",
    "ꙮ ꜳ ǆ ǅ Ǆ ﬁ ﬀ Ĳ ŉ ᾳ ᾼ",
]
SYMBOLS = """😀 😂🤣 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️ ❤ ✨✨✨ 1️⃣ #️⃣ ☃ ★☆ → ⇒ ∑∫√ ½ ² ³ Ⅷ ⅷ ① ㊙ ㈱ ™ ® © € £ ¥ № … — – “quoted” ‘single’ «guillemets» ´ ` ~ ^
| \\ / {a} [b] <c> (d) !!! ??? ?! ... ,,, ;;; ''' \"\"\" 's 't 're 've 'm 'll 'd 'S 'LL '' 'x !'s 𝓯𝓪𝓷𝓬𝔂 𝟘𝟙𝟚 𝕏 ａｂｃ ＡＢＣ １２３ ﷺ 🅰 🄰
<|startoftext|> <|endoftext|> <|STARTOFTEXT|> <|ENDOFTEXT|>! !<|EndOfText|>x <|endoftext <|start <|>""".split()
ODD = ["", " ", "\n\t \r\n", "\u00a0\u2003\u3000x\u2028y\u0085z", "\x00\x01\x7f", "\x1ca\x1db\x1f", "a\u200bb\u200dc\ufeffd\u00ade",
       "e\u0301 E\u0301 \u0301 o\u0308\u0323 \u1e69 s\u0323\u0307", "\u212b \u2126 \u1e9b\u0323", "\ufffd\ufffe\U0010ffff", "a" * 200, "ab" * 150,
       "!" * 100, "1" * 50, "é" * 80, "字" * 80, "😀" * 40, "_" * 30 + "x_y-_z", "\\(a\\)", "A" * 30 + "a" * 30, "İ" * 10 + "ß" * 10]


def sentence(rng, n):
    words = []
    for _ in range(n):
        roll = rng.random()
        word = rng.choice(WORDS) if roll < 0.75 else rng.choice(SYMBOLS) if roll < 0.88 else rng.choice(rng.choice(LANGUAGES).split())
        case = rng.random()
        word = word.upper() if case < 0.08 else word.title() if case < 0.2 else word
        words.append(unicodedata.normalize("NFD", word) if rng.random() < 0.03 else word)
        words.append(rng.choice([" "] * 12 + [", "] * 6 + ["  ", "\n", "", "-", ".", "\u3000", " | "]))
    return "".join(words)


def scrambled(rng):
    """Characters of all scripts that Unicode 14 and later agree on."""
    chosen = []
    while len(chosen) < 24:
        c = chr(rng.choice([rng.randrange(0x500), rng.randrange(0x3100), rng.randrange(0x110000)]))
        if unicodedata.category(c) not in ("Cn", "Cs", "Co"):
            chosen.append(c)
            if rng.random() < 0.3:
                chosen.append(rng.choice(" a1'"))
    return "".join(chosen)


def plain(n):
    rng = random.Random(3)
    return [sentence(rng, rng.randrange(2, 9)) for _ in range(n)]


def all():
    rng = random.Random(1)
    texts = [*LANGUAGES, *SYMBOLS, *ODD]
    texts += [scrambled(rng) for _ in range(120)]
    texts += [sentence(rng, 150) for _ in range(12)]
    while len(texts) < 1000:
        texts.append(sentence(rng, rng.randrange(1, 14)))
    return texts


WEIGHTS = """a (red) fox|a (red:1.3) fox|((red)) fox|(((red)) fox) in (snow:0.8)|(a (b (c:1.5) d:0.7) e)|(red:1.2|red:1.2)|a) b (c) d|a)(b)|)(|((a)|(a(b)|
(a))|()|(())|(:1.2)|(a:)|(a:b)|(a:1.2:1.3)|(a:1.2 )|(a: 1.2)|(a:+1.2)|(a:-0.5)|(a:.5)|(a:5.)|(a:1e-1)|(a:1_0.5)|(a:1__0)|(a:_1)|(a:1_)|(a:0)|(a:0x1)|
(a:１.５)|(1:2)|(12:34)|(a:1.0)|(a:1.1)(b:1.1)c|\\(a\\) (b)|(a \\(b\\):1.2)|(a\\)|\\(a)|\\\\(a)|(a\\:1.2)|a\\b \\|(a
b:1.2)|(雪:1.2)と(狐)|(😀:1.4)|(a:1.2)(b:1.3)((c:1.4))|((((((((deep))))))))|((a:1.5):0.5)|(masterpiece:1.2), best quality, ((fox)), [snow]|
(a,b,c:1.2), (d e f g h i j k l m:0.9)|(don't:1.1)|( )|( a :1.2)|(a:1.2)b|a(b:1.2)c|(:)|(::1.2)|(\t:1.2)|(a:1.2\x1f)|(a:1.2\u3000)""".split("|")
EMBEDDED = """embedding:cat|a embedding:cat b|embedding:cat, snow|embedding:style embedding:cat|(embedding:style:1.2)|(embedding:bad-hands:0.5), x|
aembedding:cat|a,embedding:cat|a, embedding:cat|embedding:none|embedding:none, x|embedding:cat,|embedding:,cat|embedding:,,cat,, y|embedding:comma,|
embedding:comma, x|embedding:cat<lora:x:1> y|embedding:style[a] b c|embedding:sub/dir z|Embedding:cat|embedding:cat
embedding:style|\tembedding:cat\tx|embedding:cat.safetensors x|(a embedding:cat b:1.3) embedding:style|embedding:../cat x|x embedding:long y|
(embedding:cat) (embedding:cat:1.4)|embedding:cat(x)|(x)embedding:cat|embedding:embedding:cat|embedding: cat""".split("|")


def prompts():
    """(prompt, names of the layouts to read it with)"""
    rng = random.Random(2)
    for text in [*WEIGHTS, *EMBEDDED]:
        yield text, ["l"]
    yield "", ["l", "g", "short", "open"]
    yield "a fox", ["l", "g", "short", "open"]
    yield "(a:1.2) <|endoftext|> b", ["l", "g"]
    for n in (5, 23, 28, 66, 70, 74, 75, 149, 300):
        fill = " ".join(["x"] * n)
        for tail in ("", " (a b c)", " (a b c d e f g)", " (a b c d e f g h)", " (one:1.1) (two three:1.2)", " embedding:style", " embedding:bad-hands"):
            yield fill + tail, ["l", "g", "short"] if n < 32 else ["l"]
    for _ in range(30):
        parts = []
        for _ in range(rng.randrange(1, 30)):
            words = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 9)))
            shape = rng.choice(["{}", "{}", "({})", "({}:%.2f)" % rng.uniform(0.2, 1.9), "(({}))", "embedding:style {}", "\\({}\\)", "({}"])
            parts.append(shape.replace("{}", words))
        yield rng.choice([", ", " "]).join(parts), [rng.choice(["l", "g", "short", "open"])]
