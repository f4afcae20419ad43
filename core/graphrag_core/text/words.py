"""Words: the patterns that find them, stop words, and lists that tell names from other words."""

import gzip
import re
from functools import cache
from importlib import resources

from graphrag_core.text.cjk import CJK

# -- patterns. They differ on purpose: rankings and entities depend on what each takes for a word.

WORD = re.compile(r"[^\W_]+")
"""A word: letters and digits of any script. An identifier such as ``broker_url`` is two."""

WORD_OR_IDENTIFIER = re.compile(r"\w+")
"""A word in which underscores count as letters."""

HYPHENATED_WORD = re.compile(r"\w+(?:-\w+)*")
"""A word with its hyphens, to join what a line break divides."""

NAME_WORD = re.compile(rf"(?:(?![{CJK}])[^\W_])+[+#]*")
"""A word that may be part of a name, such as "C++", outside Chinese and Japanese text."""

CJK_WORD = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_])+")
"""A word; a Chinese or Japanese character is one."""

PROSE_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*|\d[\d.,:/%-]*")
"""A word with its apostrophes and hyphens, or a number with its punctuation."""

# -- stop words. One list, and lists for a purpose: a longer one would change which terms count.

FUNCTION = frozenset(
    """a an the this that these those it its he she him his her hers they them their we us our you your i me my
    in on at of for from by with without within into onto upon over under about above below between among through
    across along against around behind beside beyond near off out up down to toward towards until till
    as is was were are be been being am what which who whom whose when where why how did does do done has have
    had having and or but nor so yet if then than after before during while since because although though unless
    whereas whether also both all any each every either neither few more most many much some such several one two
    three four five six seven eight nine ten first second third there here not no none nothing may might can could
    would should will shall must ought only just even still already again ever never often sometimes always usually
    too very quite rather almost own same other another others""".split()
)
"""Function words. They are never names and are stripped from both ends of a name."""

KEYWORD_STOP_WORDS = frozenset(
    """a an and are as at be but by did do does for from had has have how in into is it its not of on or such
    that the their then there these they this to was were what when where which who whom whose why will with""".split()
)
"""Terms of a keyword index that say nothing about a question. They are compared with stemmed terms."""

QUESTION_STOP_WORDS = FUNCTION | frozenset("happen happens work works tell explain give me please".split())
"""Words of a question that are not marked in a passage. They are compared before stemming."""

NEAR_DUPLICATE_STOP_WORDS = frozenset("a an the this that these those it its and is are was were".split())
"""Words that one of two near-duplicates may have alone."""

NEVER_LAST = frozenset(
    """a an the of in on at to for from by with without and or but its their his her your our this these as is are be
    than into onto upon if when which whose that any each every""".split()
)
"""Words that no whole sentence ends with."""

# -- words that are not names, and words inside names

OPENERS = FUNCTION | frozenset(
    """according additionally afterwards alternatively altogether amid apart arguably aside based because beginning
    besides born briefly built called certainly clearly click commonly compared consequently considered consider
    contrary conversely created currently despite described designed directed due earlier early eventually
    everyone everything evidently except facing featuring finally following follows formed formerly fortunately
    founded further furthermore generally given going hence however importantly indeed initially instead
    interestingly known largely last later lately latter led let like likewise listed located looking made mainly
    meanwhile moreover mostly named nearly nevertheless next nonetheless note notably now obviously occasionally
    once ongoing opened originally otherwise overall owing part particularly people perhaps please plus possibly
    presumably previously primarily prior probably produced published put rarely recent recently regarding
    regardless related released reportedly respectively running say see seen set shortly similar similarly simply
    someone something soon specifically starting starring subsequently suddenly suppose surely taken taking
    thanks thereafter therefore thereby think throughout thus today together tomorrow tonight traditionally
    try turning typically ultimately unfortunately unlike upon use used using usually various via want well
    whatever whenever wherever whichever whoever why written yes yesterday
    add allow apply ask avoid build call change check choose close configure copy create delete deploy
    disable do download edit enable ensure enter find fix follow get go import include install keep
    list load log make merge move open paste pick press read remove rename replace restart return run save
    select send show start stop store switch take tell test type update upload verify view wait warning write
    example examples important optional required step summary overview introduction conclusion background
    question answer problem solution result results section table figure chapter appendix
    added adding allowed allows bumped changed clarified cleaned contains corrected deprecated denotes depending
    describes documented dropped edited fixed fixes implemented implements improved improves includes indicates
    introduced prevents provided provides raised raises recommended refactored removed removes renamed replaced
    represents requires resolved returned returns reverted rewritten rewrote sets specifies supported supports
    updated updates upgraded""".split()
)
"""Function words and words that often open a sentence. They are stripped from the first name of a sentence."""

VERBS = frozenset(
    """accept adapt adjust append assign assume attach bind bring browse calculate cancel catch clean clear clone
    combine compare compile complete connect contact continue control convert customize customise debug declare
    decode defaults define defines detect determine develop display drop emit enabled encode establish evaluate
    exclude execute exit expand expect export extend extract feel fetch fill filter force generate group handle help
    hide hold identify ignore implement improve increase initialize initialise insert inspect introduce invoke issue
    join launch learn leave limit link locate look lower maintain manage map match measure mention minor misc modify
    monitor navigate need needs notice obtain omit optimize override parse pass perform place point prefer prepare
    prevent print proceed process produce propagate provide publish pull push query raise reads receive reduce
    refer register reload remember render repeat report request require reset resolve restore retrieve review revert
    scan schedule scroll search separate serve share sign skip sort source specify split submit substitute support
    sync tip todo toggle track translate transform treat trigger tries turn unset upgrade validate visit wrap
    writes""".split()
)
"""Words that are not names if they open a sentence and no other capitalised word follows."""

_CONTRACTIONS = (
    "don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't shouldn't wouldn't haven't hasn't hadn't "
    "let's it's that's there's here's what's who's you'll you're you've we'll we're we've i'm i've i'd"
)
NEVER_ALONE = frozenset(
    f"""true false none null nil undefined yes note notes warning warnings caution tip tips hint danger attention todo
    fixme example examples default defaults deprecated see n/a tbd etc var enum param params returns return
    raises yields args kwargs int str bool float dict tuple self cls inc ltd corp llc gmbh cannot
    {_CONTRACTIONS} {_CONTRACTIONS.replace("'", "’")}""".split()
)
"""Words that are not names on their own, wherever they stand."""

PLACEHOLDERS = frozenset(
    """address argument command device directory domain file filename folder group host hostname interface name number
    option package path port server string url user username value version""".split()
)
"""Words after a command that stand for what the reader has to fill in."""

COMMON_NOUNS = frozenset(
    """academy act agency airlines airport album army association authority award awards band bank battle board book
    bridge building bureau cathedral castle center centre championship church city club code college command committee
    community company conference configuration corporation council county court cup database department development
    district division documentation edition editor empire engine engineering express family festival field file files
    film force foundation framework garden government group guide handbook high hill hospital hotel house institute
    international island islands journal kernel kingdom lake language law league library license line linux list
    magazine management manager manual market ministry mode model mountain museum music national network new news
    north office olympics online open opera orchestra organization package packages palace park party people plan
    policy port post power prefecture press prize process program project protocol province public pro radio railway
    records region report republic research review river road royal school science sea secretary security series
    server service services show society software south south-east square stadium standard state states station store
    street studio studios support system systems team television temple territory theatre theater times tool tools
    tour tower town trail treaty tribune trust union united university user valley version village war water web west
    east world american argyle argus athletic companion oil rovers wanderers""".split()
)
"""Words of the names of things that no person's name has."""

GENERIC_HEADINGS = frozenset(
    heading.strip()
    for line in """
    about|abstract|acknowledgements|acknowledgments|additional information|advanced|advanced topics|advanced usage
    api|api documentation|api reference|appendix|arguments|attributes|author|authors|availability|background
    basic usage|basics|bug fixes|bugfixes|bugs|caveats|change history|change log|changelog|changes|class|classes
    code|command line|command line options|commands|community|compatibility|conclusion|configuration|constants
    contact|contents|contributing|contributors|copying|copyright|credits|definition|definitions|demo|dependencies
    deprecated|deprecations|description|design|details|development|diagnostics|discussion|documentation|download
    enhancements|environment|environment variables|errors|example|example usage|examples|exceptions|exit status
    exit codes|faq|features|features and improvements|files|fixed|fixes|footnotes|formal definition
    frequently asked questions|functions|further information|further reading|general|getting help|getting started
    glossary|guide|guides|help|highlights|history|home|how it works|how to|implementation|implementation notes
    important|improvements|index|info|information|inherited members|input|install|installation
    installation instructions|installing|instructions|intro|introduction|issues|known issues|legal|legend|licence
    license|licensing|limitations|links|list|main|members|methods|methods documentation|miscellaneous|misc|module
    modules|module contents|more|more information|motivation|name|names|new|new features|news|next|next steps
    notable changes|note|notes|objects|options|other|other changes|others|output|overview|package contents
    parameters|platforms|preface|prerequisites|problem|properties|purpose|quick start|quickstart|rationale|readme
    recipes|references|reference|related|related work|release notes|removed|reporting bugs|requirements|resources
    results|return value|return values|returns|roadmap|running|sample|scope|section|security|see also|set up
    settings|setup|solution|source|source code|standards|status|steps|structure|submodules|subpackages|summary
    support|support and documentation|synopsis|syntax|table of contents|terminology|terms|testing|tests|the basics
    tips|title|todo|top|topics|troubleshooting|tutorial|tutorials|type|types|uninstall|untitled|upgrade notes
    upgrading|usage|usage examples|use|use cases|user guide|users|using|values|variables|version|versions
    version history|warning|warnings|what is it|what s new|whats new|where to go from here|why|news and updates
    example output|what s changed|recent news|recent changes
    added|changed|security fixes|breaking changes|new in this release|important notes|quick reference|first steps
    one|two|three|part|part one|part two|page|chapter|beispiel|beispiele|beschreibung|einführung|einleitung|inhalt
    inhaltsverzeichnis|siehe auch|übersicht|verwendung|voraussetzungen|zusammenfassung|hinweise|parameter|lizenz
    literatur|einzelnachweise|weblinks|aperçu|exemple|exemples|utilisation|paramètres|voir aussi|sommaire|remarques
    notes et références|références|prérequis|descripción|ejemplo|ejemplos|introducción|instalación|uso|parámetros
    véase también|resumen|notas|licencia|conclusión|referencias|requisitos|índice|descrizione|esempio|esempi
    introduzione|installazione|utilizzo|parametri|vedi anche|riepilogo|licenza|indice|descrição|exemplo|exemplos
    introdução|instalação|parâmetros|veja também|resumo|licença|referências|beschrijving|voorbeeld|voorbeelden
    inleiding|installatie|gebruik|zie ook|overzicht|samenvatting|введение|описание|пример|примеры|установка
    использование|параметры|см также|обзор|содержание|примечания|лицензия
    概述|简介|介绍|安装|用法|使用|示例|例子|参数|说明|参见|参考|目录|总结
    背景|常见问题|快速开始|配置|许可证|附录|概要|はじめに|インストール|使い方|例|引数|説明|関連項目|目次|まとめ|注意|よくある質問|設定|ライセンス
    """.splitlines()
    for heading in line.split("|")
    if heading.strip()
)
"""Headings that say what kind of section follows and not what it is about, normalised."""

GENERIC_TITLES = frozenset(
    """authors|change history|changelog|contents|contributing|copying|copyright|faq|frequently asked questions|glossary
    index|introduction|license|licence|overview|readme|release notes|table of contents|todo|untitled
    untitled document""".replace("\n    ", "|").split("|")
)
"""Titles that say nothing about a document."""

LANGUAGE_OPENERS = tuple(
    (frozenset(openers.split()), frozenset(markers.split()))
    for openers, markers in (
        (  # German
            """der die das den dem des ein eine einen einem einer eines und oder aber wenn weil dass daß ob als wie wo
            was wer warum wann im in am an auf aus bei bis durch für gegen mit nach ohne seit über um unter von vom vor
            während wegen zu zum zur er sie es wir ihr ich man dieser diese dieses diesem diesen jeder jede jedes alle
            alles nicht kein keine auch nur noch schon so dann da hier dort nun sehr mehr siehe beispiel hinweis achtung
            ja nein falls sobald damit dabei dazu daher deshalb jedoch sowie sein seine ist sind war waren wird werden
            hat haben kann können muss müssen soll sollte""",
            "der die das und ist nicht mit ein eine für wird werden auf den",
        ),
        (  # French
            """le la les l un une des du de d et ou mais si car donc que qui quoi où quand comment pourquoi dans en sur
            sous avec sans pour par vers chez entre après avant pendant depuis contre il elle ils elles on nous vous je
            tu ce cet cette ces son sa ses leur leurs mon ma mes notre votre tout tous toute toutes aucun aucune ne pas
            plus aussi ainsi alors cependant voir exemple remarque note attention oui non lorsque puis est sont était
            a ont peut au aux""",
            "le les des une est dans que pour sur avec et du",
        ),
        (  # Spanish
            """el la los las un una unos unas de del y o pero si que qué quien cuando cuándo como cómo donde dónde por
            para con sin en sobre entre desde hasta tras según contra él ella ellos ellas nosotros usted ustedes yo tú
            este esta estos estas ese esa eso su sus mi mis todo todos toda todas ningún ninguna no también así
            entonces sin embargo véase ejemplo nota advertencia sí es son era fue al ha han puede""",
            "el los las una es en que para con por del y",
        ),
        (  # Italian
            """il lo la i gli le un uno una di del della dei delle e o ma se che chi quando come dove perché per con
            senza in nel nella nei su sul sulla tra fra da dal dalla dopo prima durante contro egli lui lei loro noi
            voi io tu questo questa questi queste quello quella suo sua suoi sue tutto tutti tutta tutte nessun non
            anche così allora tuttavia vedi esempio nota attenzione sì no è sono era al ha hanno può""",
            "il gli della una è che per con nel sono di",
        ),
        (  # Portuguese
            """o a os as um uma uns umas de do da dos das e ou mas se que quem quando como onde por para com sem em no
            na nos nas sobre entre desde até após contra ele ela eles elas nós você vocês eu este esta estes estas esse
            essa isso seu sua seus suas todo todos toda todas nenhum nenhuma não também assim então veja exemplo nota
            aviso sim é são era foi ao há pode""",
            "os uma é em que para com não da do na são",
        ),
        (  # Dutch
            """de het een en of maar als dat die dit deze wie wat waar wanneer hoe waarom in op aan bij met zonder van
            voor na door naar uit over onder tussen tegen tijdens hij zij ze wij we jij u ik er zijn haar hun alle
            alles geen niet ook nog dan zo toen echter zie voorbeeld opmerking let ja nee is was worden wordt kan
            moet""",
            "het een van voor niet met wordt zijn deze op",
        ),
        (  # Russian
            """в во на по он она оно они мы вы я это этот эта эти как но и а с со к ко из для при о об от до за под над
            если когда где что кто чтобы также так не нет да его её их все всё каждый см пример примечание внимание
            после перед между через без или же ещё уже""",
            "и в на не что для с это",
        ),
    )
)
"""Words that open sentences in other languages, and words that show the language.

Some are parts of English names ("Die Hard", "Los Angeles"), so they count only in a text of that language."""

CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april june july august september october november december mon tue tues wed thu
    thur thurs fri mr mrs ms dr""".split()
)
"""Words that are not names on their own, such as "Monday" or "Dr"."""

CALENDAR_SHORT = frozenset("sat sun jan feb mar apr jun jul aug sep sept oct nov dec am pm".split())
"""Words that are part of a date beside a number or another word of the calendar. Some are names on their own."""

GREETINGS = frozenset("hi hello hey dear greetings cheers regards sincerely".split())
"""Words before a name at the start of a letter that are not part of it, and words that end a letter."""

TITLE_REFERENCES = frozenset(
    """section sections sect sec chapter chapters appendix appendices figure figures fig table tables page pages
    footnote equation eq listing paragraph""".split()
)
"""Words that refer to a part of a document when a number follows."""

REFERENCES = TITLE_REFERENCES | frozenset(
    "version versions ver edition release level part step example exercise item note annex lemma theorem vol §".split()
)
"""Words that are no name with a number after them, but may be the end of one ("The Godfather Part II")."""

CURRENCIES = frozenset(
    "EUR USD GBP SEK NOK DKK CHF JPY CNY INR CAD AUD NZD PLN CZK HUF RON BRL MXN ZAR RUB TRY KRW SGD HKD".split()
)
"""Currencies, which are no name with an amount after them."""

CONNECTORS = (
    "of|the|de|la|le|les|du|des|von|van|der|den|del|della|di|da|dos|das|do|el|al|bin|ibn|y|e|et|for|in|on|at|to|a|an"
)
"""Lower-case words inside a name ("Bank of the West"), as alternatives of a regular expression."""

# -- the dictionary. The list is made by ``benchmarks/word_list.py`` and has its licence at its start.


@cache  # takes 30 ms, and a question without a plural does not need it
def _dictionary() -> dict[str, str]:
    """Return the singular of each ordinary word."""
    data = gzip.decompress(resources.files(__package__).joinpath("ordinary_words.txt.gz").read_bytes()).decode()
    words: dict[str, str] = {}
    for line in data.splitlines():
        if line[0] != "#":
            word, _, singular = line.partition(" ")
            words[word] = singular or word
    return words


def is_ordinary(word: str) -> bool:
    """Return whether a word in lower case is an ordinary one, and not also a name such as "china" or "mark".

    >>> [is_ordinary(word) for word in ("permanent", "sessions", "keyring", "redis", "china")]
    [True, True, False, False, False]
    """
    return word in _dictionary()


def singular(word: str) -> str:
    """Return the singular of an ordinary word in lower case; any other word as it is.

    >>> [singular(word) for word in ("developers", "news", "windows", "rails")]
    ['developer', 'news', 'windows', 'rails']
    """
    return _dictionary().get(word, word)
