"""Chinese and Japanese text, which has neither spaces nor capitals: words for keyword search, and names.

Keyword search uses overlapping character bigrams. Names are found without a dictionary, so only the
clear cases are taken: bracketed titles, transliterated names with a middle dot, katakana words, and
phrases between function words that end like the name of a place, an organisation or a work, or that
the passage repeats.
"""

import re
from collections import Counter
from collections.abc import Iterator

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
"""Chinese and Japanese characters, as the inside of a regular expression's character class."""

_CJK_RUN = re.compile(f"[{CJK}]+")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KATAKANA = "\u30a1-\u30fa\u30fc"
_BRACKETED = re.compile(r"[《〈「『【]([^《〈「『【》〉」』】\n]{1,40})[》〉」』】]")
# Characters used to transliterate foreign names into Chinese.
_SOUND = (
    "阿埃艾爱安昂奥澳巴白班邦包保鲍贝本比彼毕宾波伯博布卜查柴川达大戴丹当道德邓迪蒂丁东杜顿多厄恩尔法凡范"
    "方菲费芬丰冯佛夫弗福富伽盖甘冈高戈哥格根贡古瓜圭郭哈海汉豪河赫黑亨洪侯胡华怀惠霍基及吉加贾简杰金津京居"
    "卡凯坎康考柯科克肯孔库夸奎昆拉莱赖兰朗劳勒雷黎李里理利莉力立丽连良列林琳隆龙娄卢鲁路吕伦罗洛马玛迈麦曼"
    "芒毛茂梅门蒙米密敏明缪摩莫默姆木穆拿那纳娜奈南内嫩能尼年涅宁牛纽农努诺欧帕派潘庞培佩彭皮平珀泼蒲普奇契恰"
    "齐乔切钦琴青琼丘屈热仁日荣茹儒瑞若萨塞赛桑瑟森沙珊山尚绍舍申圣施什诗石史士寿舒朔司丝斯思松苏素孙索所塔泰"
    "坦汤唐陶特腾提田铁廷通图托脱瓦万旺威韦维卫魏温文翁沃乌武伍西希锡席喜夏香肖谢辛欣兴雄休修许雪逊雅亚延扬杨耶"
    "翰生叶伊宜易因英永尤犹于宇裕约云赞泽曾扎詹张章哲珍芝朱茱卓兹子宗祖佐"
)
_DOTTED = re.compile(
    rf"[{_SOUND}]{{1,7}}(?:[·・‧•][{_SOUND}]{{1,7}})+"
    rf"|(?<![{_KATAKANA}])[{_KATAKANA}]+(?:[・=＝][{_KATAKANA}]+)+"  # from the start of a run: see analysis.py
)
_KATAKANA_WORD = re.compile(rf"[{_KATAKANA}]{{3,}}")
_PHRASE = re.compile(rf"[{_HAN}]{{2,}}")
# Characters that are mostly grammatical. They split a run of Han characters into phrases.
PARTICLES = "的了着过是在和与及或而但也都就又并且被把由从到对于"
_FUNCTION = (
    PARTICLES + "向为以因其之所这那此该每各我你他她它们"
    "有没不很更最只还已将会能可要让使给比如若则虽等个种次位名些什么谁哪几多少吗呢吧啊年月日时"
)
_CUT = re.compile(f"[{_FUNCTION}]+")
# Suffixes of names. A suffix of two or more characters may be followed by other words.
_NAME_SUFFIX = re.compile(
    r".{1,14}(?:"
    r"公司|集团|银行|大学院|大学|学院|学校|医院|委员会|协会|联盟|组织|政府|法院|议会|部门|研究所|实验室|博物馆|图书馆|体育场|机场|公园|"
    r"王朝|帝国|共和国|战争|革命|条约|法案|系统|服务|平台|协议|引擎|框架|模型|会社|神社"
    r"|(?:省|市|县|区|州|国|岛|河|江|湖|山|海|港|洲|镇|村|路|街|桥|站|队|军|党|派|族|教|寺|宫|塔|城|奖|都|府|県|町|駅|川|島|社)$)"
)
_COMPANY = re.compile(rf"(?:(?![{_FUNCTION}])[{_HAN}]){{2,16}}有限(?:责任|責任)?公司")
_LONGEST_PHRASE = 16


def has_cjk(text: str) -> bool:
    """Return whether a text has Chinese or Japanese characters."""
    return not text.isascii() and _CJK_RUN.search(text) is not None


def segment(text: str) -> str:
    """Replace each run of Chinese or Japanese characters by its character bigrams.

    >>> segment("NFL 橄榄球联盟")
    'NFL  橄榄 榄球 球联 联盟 '
    """
    return text if text.isascii() else _CJK_RUN.sub(_bigrams, text)


def _bigrams(match: re.Match[str]) -> str:
    run = match.group()
    pairs = [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return f" {' '.join(pairs)} "


def find_cjk_names(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield names with their start and end.

    >>> [name for name, _, _ in find_cjk_names("卡万·肖特在北京大学读《红楼梦》。")]
    ['红楼梦', '卡万·肖特', '北京大学']
    """
    taken = bytearray(len(text))  # 1 for each character inside a name found so far
    for pattern, group in ((_BRACKETED, 1), (_DOTTED, 0), (_KATAKANA_WORD, 0), (_COMPANY, 0)):
        for match in pattern.finditer(text):
            start, end = match.span(group)
            if taken.find(1, start, end) < 0:
                taken[start:end] = b"\1" * (end - start)
                yield match.group(group), start, end
    phrases = [phrase for phrase in _phrases(text) if taken.find(1, phrase[1], phrase[2]) < 0]
    repeated = Counter(name for name, _, _ in phrases)
    for name, start, end in phrases:
        if named := _NAME_SUFFIX.match(name):
            yield named.group(), start, start + named.end()
        elif repeated[name] > 1 and len(name) <= 4:
            yield name, start, end


def _phrases(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the pieces of 2 to 16 Han characters between grammatical characters."""
    for match in _PHRASE.finditer(text):
        start = match.start()
        for cut in [*_CUT.finditer(match.group()), None]:
            stop = match.start() + cut.start() if cut else match.end()
            if 2 <= stop - start <= _LONGEST_PHRASE:
                yield text[start:stop], start, stop
            start = match.start() + cut.end() if cut else stop
