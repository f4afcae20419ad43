"""Word lists: English words that are not names although they may be capitalised, and words inside names."""

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
    question answer problem solution result results section table figure chapter appendix""".split()
)
"""Function words and words that often open a sentence. They are stripped from the first name of a sentence."""

CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april june july
    august september october november december mr mrs ms dr""".split()
)
"""Words that are not names on their own, such as "Monday" or "Dr"."""

CONNECTORS = (
    "of|the|de|la|le|les|du|des|von|van|der|den|del|della|di|da|dos|das|do|el|al|bin|ibn|y|e|et|for|in|on|at|to|a|an"
)
"""Lower-case words inside a name ("Bank of the West"), as alternatives of a regular expression."""
