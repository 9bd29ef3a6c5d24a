"""The words of the captions: colors, styles, hand-written aliases, the demo prompts and what is held out of training."""

BACKGROUNDS = {
    "white": (255, 255, 255), "black": (20, 20, 20), "red": (220, 50, 50), "blue": (60, 110, 230),
    "green": (70, 180, 90), "yellow": (250, 215, 80), "pink": (250, 160, 190), "gray": (150, 150, 150),
    "purple": (140, 90, 200), "orange": (245, 150, 60), "light blue": (170, 215, 250), "brown": (130, 90, 60),
}

# Recoloring targets: hue in degrees (None: remove color), saturation and value factors, value
# floor.
COLORS = {
    "red": (2, 1.0, 1.0, 0.0), "orange": (26, 1.0, 1.0, 0.1), "yellow": (47, 1.0, 1.0, 0.25),
    "green": (125, 0.9, 0.9, 0.0), "blue": (214, 1.0, 1.0, 0.0), "purple": (272, 0.85, 0.95, 0.0),
    "pink": (338, 0.55, 1.0, 0.3), "brown": (24, 0.8, 0.6, 0.0), "black": (None, 0.08, 0.28, 0.0),
    "white": (None, 0.05, 1.0, 0.6), "gray": (None, 0.05, 0.72, 0.1),
}

STYLES = {
    "3d": ["3d {}", "{}, 3d", "{} in 3d style", "3d render of {}", "3d emoji of {}"],
    "flat": ["flat {}", "{}, flat", "{} in flat style", "flat icon of {}", "flat design of {}"],
    "noto": ["noto {}", "{}, noto", "{} in noto style", "noto emoji of {}", "cartoon {}", "{}, cartoon"],
}

# Everyday names that the official ones lack, by official name. The first entries weigh like the
# name itself.
ALIASES = {
    "automobile": ["car", "red car"], "sport utility vehicle": ["blue car", "suv", "jeep"], "taxi": ["yellow taxi", "yellow car", "cab"],
    "red apple": ["apple"], "mobile phone": ["phone", "smartphone", "cell phone"], "hot beverage": ["coffee", "cup of coffee", "tea cup"],
    "wrapped gift": ["gift", "present", "gift box"], "airplane": ["plane", "jet"], "hamburger": ["burger", "cheeseburger"],
    "cherries": ["cherry"], "crescent moon": ["moon"], "jack-o-lantern": ["pumpkin", "halloween pumpkin"],
    "robot": ["robot face", "robot head"], "sun with face": ["sun", "smiling sun", "happy sun", "smiling sun with face"], "deciduous tree": ["tree"],
    "evergreen tree": ["pine tree", "fir tree"], "soft ice cream": ["ice cream", "ice cream cone"], "ice cream": ["bowl of ice cream"],
    "open book": ["book"], "closed book": ["red book"], "blue book": ["book"], "sailboat": ["boat", "sail boat", "yacht"],
    "birthday cake": ["cake"], "shortcake": ["cake", "slice of cake"], "bicycle": ["bike"], "motorcycle": ["motorbike"],
    "camera": ["photo camera"], "umbrella": ["purple umbrella"], "trophy": ["golden cup", "gold trophy"], "glowing star": ["bright star"],
    "star": ["yellow star", "gold star"], "red heart": ["heart", "love heart"], "full moon face": ["moon face", "smiling moon"],
    "smiling face with sunglasses": ["cool face", "smiley with sunglasses", "face wearing sunglasses"],
    "smiling cat with heart-eyes": ["cat face with heart eyes", "cat with heart eyes", "smiling cat face with heart eyes"],
    "smiling face with heart-eyes": ["face with heart eyes", "smiley with heart eyes", "heart eyes"],
    "grinning face": ["smiley", "happy face", "smiling face"], "slightly smiling face": ["smile", "smiling face"],
    "crying face": ["sad face with a tear"], "pouting face": ["red angry face"], "angry face": ["mad face"],
    "steaming bowl": ["ramen", "noodles"], "cooking": ["fried egg"], "cup with straw": ["soda", "drink"], "beer mug": ["beer"],
    "wine glass": ["wine", "red wine"], "cocktail glass": ["cocktail", "martini"], "french fries": ["fries"], "poultry leg": ["chicken leg"],
    "cut of meat": ["steak"], "spaghetti": ["pasta"], "doughnut": ["donut"], "cookie": ["chocolate chip cookie"], "lollipop": ["candy on a stick"],
    "tangerine": ["orange fruit", "mandarin"], "avocado": ["avocado half"], "ear of corn": ["corn"], "hot pepper": ["chili", "chili pepper"],
    "bell pepper": ["paprika"], "eggplant": ["aubergine"], "grapes": ["bunch of grapes"], "watermelon": ["slice of watermelon"],
    "spiral shell": ["sea shell", "seashell"], "spouting whale": ["happy whale"], "lady beetle": ["ladybug", "ladybird"], "honeybee": ["bee"],
    "lion": ["lion face", "lion head"], "frog": ["frog face"], "bear": ["bear face"], "panda": ["panda face", "panda bear"], "fox": ["fox face"],
    "koala": ["koala face"], "unicorn": ["unicorn head"], "horse face": ["horse head"], "front-facing baby chick": ["chick", "baby chick"],
    "hatching chick": ["chick in an egg"], "t-rex": ["dinosaur", "tyrannosaurus"], "sauropod": ["dinosaur", "brontosaurus"], "crocodile": ["alligator"],
    "dog face": ["dog", "puppy"], "cat face": ["cat", "kitten"], "mouse face": ["mouse"], "rabbit face": ["rabbit", "bunny"], "pig face": ["pig"],
    "cow face": ["cow"], "monkey face": ["monkey"], "tiger face": ["tiger"], "person": ["man or woman"], "santa claus": ["santa"],
    "t-shirt": ["shirt"], "crown": ["golden crown", "king crown"], "top hat": ["hat", "black hat"], "sunglasses": ["dark glasses"], "running shoe": ["sneaker", "shoe"],
    "high-heeled shoe": ["red shoe", "high heels"], "gem stone": ["diamond", "gem", "jewel"], "money bag": ["bag of money"], "video game": ["game controller", "gamepad"],
    "musical keyboard": ["piano"], "drum": ["drums"], "microphone": ["mic"], "headphone": ["headphones"], "television": ["tv"], "laptop": ["laptop computer", "notebook computer"],
    "desktop computer": ["computer", "monitor"], "light bulb": ["lamp", "bulb"], "alarm clock": ["clock", "red alarm clock"], "mantelpiece clock": ["old clock"],
    "locked": ["lock", "padlock"], "key": ["golden key"], "crossed swords": ["swords"], "dagger": ["sword", "knife"], "magic wand": ["wand"], "crystal ball": ["magic ball"],
    "american football": ["rugby football"], "soccer ball": ["football", "black and white ball"], "basketball": ["orange ball"], "tennis": ["tennis ball"],
    "direct hit": ["dart board", "target"], "game die": ["dice", "die"], "puzzle piece": ["puzzle", "jigsaw piece"], "teddy bear": ["toy bear"],
    "rocket": ["space rocket", "spaceship"], "flying saucer": ["ufo"], "locomotive": ["steam train", "train"], "high-speed train": ["fast train"], "delivery truck": ["truck"],
    "articulated lorry": ["big truck", "semi truck"], "fire engine": ["fire truck"], "police car": ["police"], "bus": ["yellow bus"], "house": ["home", "little house"],
    "house with garden": ["home with a tree"], "castle": ["fairy tale castle"], "snow-capped mountain": ["mountain", "snowy mountain"], "volcano": ["erupting volcano"],
    "desert island": ["island", "tropical island", "palm island"], "palm tree": ["palm"], "snowman": ["snow man"], "snowflake": ["snow"], "cloud with rain": ["rain", "rain cloud"],
    "cloud with lightning": ["thunder cloud"], "high voltage": ["lightning", "lightning bolt"], "water wave": ["wave", "ocean wave"], "droplet": ["water drop"], "fire": ["flame"],
    "rose": ["red rose"], "sunflower": ["yellow flower"], "tulip": ["pink tulip"], "cherry blossom": ["pink flower", "flower"], "four leaf clover": ["lucky clover"], "maple leaf": ["autumn leaf", "leaf"],
    "mushroom": ["red mushroom", "toadstool"], "cactus": ["green cactus"], "christmas tree": ["xmas tree"], "balloon": ["red balloon"], "party popper": ["party", "confetti"],
    "pile of poo": ["poop"], "skull": ["human skull"], "alien": ["alien face", "green alien"], "alien monster": ["pixel alien", "space invader"], "ghost": ["white ghost"], "ogre": ["red monster"],
    "thumbs up": ["thumb up", "like"], "waving hand": ["hand waving", "hello hand"], "clapping hands": ["applause"], "red paper lantern": ["lantern"], "globe showing europe-africa": ["earth", "planet earth", "globe"],
    "ringed planet": ["planet", "saturn"], "hourglass done": ["hourglass"], "books": ["stack of books"], "pencil": ["yellow pencil"], "scissors": ["pair of scissors"], "paintbrush": ["brush"], "artist palette": ["palette", "paint palette"],
    "chair": ["wooden chair"], "couch and lamp": ["couch", "sofa"], "bed": ["wooden bed"], "door": ["brown door"], "toilet": ["white toilet"], "bathtub": ["bath"], "shopping cart": ["cart"], "backpack": ["school bag"], "handbag": ["purse"],
    "ring": ["diamond ring"], "lipstick": ["red lipstick"], "wrench": ["spanner"], "hammer": ["tool"], "gear": ["cog"], "magnet": ["horseshoe magnet"], "battery": ["green battery"], "candle": ["burning candle"], "bell": ["golden bell"], "anchor": ["ship anchor"],
}

# Faces that can wear things: official name -> (eye height, top height, face width), as fractions of
# the picture.
FACES = {
    "sun with face": (0.46, 0.13, 0.62), "full moon face": (0.45, 0.08, 0.75), "dog face": (0.46, 0.12, 0.62), "cat face": (0.50, 0.16, 0.68),
    "lion": (0.48, 0.10, 0.60), "bear": (0.47, 0.13, 0.66), "panda": (0.47, 0.13, 0.66), "koala": (0.47, 0.14, 0.60), "fox": (0.52, 0.16, 0.66),
    "tiger face": (0.48, 0.12, 0.66), "pig face": (0.47, 0.13, 0.66), "monkey face": (0.46, 0.11, 0.58), "frog": (0.30, 0.10, 0.68), "hamster": (0.48, 0.14, 0.66),
    "rabbit face": (0.60, 0.34, 0.58), "cow face": (0.42, 0.14, 0.55), "mouse face": (0.52, 0.18, 0.55), "robot": (0.48, 0.16, 0.55), "ghost": (0.36, 0.08, 0.55),
    "alien": (0.50, 0.08, 0.62), "skull": (0.46, 0.07, 0.62), "jack-o-lantern": (0.50, 0.22, 0.70), "grinning face": (0.42, 0.06, 0.72), "polar bear": (0.47, 0.13, 0.62),
    "wolf": (0.48, 0.12, 0.60), "snowman without snow": (0.28, 0.08, 0.36), "baby": (0.50, 0.10, 0.60), "penguin": (0.26, 0.06, 0.45), "front-facing baby chick": (0.36, 0.08, 0.55),
}
WEAR = {  # accessory: (phrases, place, size relative to the face width)
    "sunglasses": (["wearing sunglasses", "with sunglasses", "in sunglasses"], "eyes", 0.92),
    "crown": (["wearing a crown", "with a crown", "with a golden crown"], "top", 0.62),
    "top hat": (["wearing a top hat", "with a hat", "wearing a hat"], "top", 0.66),
}

# The 64 prompts of the contact sheet; the first 50 are the plain ones that are counted.
PROMPTS = """red apple|a smiling sun wearing sunglasses|cat face with heart eyes|yellow car|pizza|rocket|green tree|red heart
dog face|ghost|robot face|birthday cake|banana|soccer ball|penguin|fire|crying face|angry face|house|bicycle|guitar|rainbow|snowman|hamburger
unicorn|octopus|crown|gift|alarm clock|book|key|airplane|red car|blue car|a green frog|tiger face|strawberry|mushroom|cactus|whale
butterfly|star|moon|pumpkin|skull|alien|light bulb|camera|umbrella|trophy|blue apple|purple banana|lion wearing a crown|a cat and a pizza
a dog and a rocket|tree on a blue background|a green frog on a pink background|flat cactus|noto whale|three strawberries|pink elephant|black cat wearing a hat|robot on a yellow background|green heart"""
PROMPTS = [p for line in PROMPTS.splitlines() for p in line.split("|")]
assert len(PROMPTS) == 64
