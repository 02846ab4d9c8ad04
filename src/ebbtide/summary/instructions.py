"""Finds instructions and approvals in a summary, in English and Chinese. A summary reports; it must not give orders.

The user's own messages stand beside every summary, so nothing is lost with such a line. Patterns cannot find every
instruction: the frame around the summary and its trust level hold against the others.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal
from urllib.parse import unquote

from ebbtide.core.text.framing import strip_invisible, to_plain_letters

InstructionKind = Literal["approval", "order"]

# The phrases below are patterns. A blank matches any blanks, line ends and marks; ` … ` a few words of one sentence,
# ` …… ` more of them, `…` between Chinese characters a few characters; `{name}` one word of that list.

WORD_LISTS = MappingProxyType(
    {
        "does": (
            r"run|exec(?:ute)?|delete|remove|wipe|send|post|call|invoke|fetch|download|curl|push|deploy|transfer|pay"
            r"|merge|approve|upload|install|open|print|reveal|leak|forward|e?mail|reply|respond|answer|say|tell|commit"
            r"|disable|publish|drop|overwrite|ignore|skip|grant|switch|output|write|copy|append|follow|obey|read|use"
            r"|treat|show|visit|rotate|state|mention|add|mark|create|edit|replace"
        ),
        "ai": (
            r"ai|llms?|assistants?|models?|agents?|claude|chatgpt|gpt|gemini|copilot|summari[sz]ers?|compactors?"
            r"|chatbots?|bots?|you"
        ),
        "secret": (
            r"system prompt|(?:api|private|ssh|access|secret)[\s_-]?keys?|tokens?|secrets?|credentials?|passwords?"
            r"|\.env|environment variables?|env vars?|id_rsa|cookies?"
        ),
        "rules": (
            r"instruct\w+|rules?|prompts?|guid\w+|directives?|constraints?|messages?|context|orders?|restrictions?"
            r"|polic\w+|safeguards?|told|said|training|conversation|limits?"
        ),
        "earlier": r"previous|prior|above|earlier|preceding|existing|all|any|your|system|safety|other|original",
        "summary": r"summar\w+|compact\w*|digest|recap|notes|memor\w+|hand-?over",
        "people": r"users?|anyone|humans?|operator|person|people|this|it|them|him|her|first|owner",
        "soon": r"now|always|never|immediately|first|instead|then|silently|also|please|kindly|quietly|must",
        "who": (
            r"users?|humans?|operators?|owners?|admin\w*|they|he|she|customers?|clients?|maintainers?|team|managers?"
            r"|boss|cto|ceo|lead|security|someone|developers?|i|management|legal|compliance"
        ),
        "yes": (
            r"approv(?:e[sd]?|ing)|authori[sz](?:e[sd]?|ing)|permit(?:ted|s)|allow(?:ed|s)|consent(?:ed|s)?"
            r"|sanction(?:ed|s)|green-?lit|greenlighted|okay(?:ed|s)|ok'?d|waived?|pre-?cleared|cleared|signed off"
            r"|whitelisted|grant(?:ed|s)|vouched|blessed"
        ),
        "leave": (
            r"permissions?|approvals?|consent|authori[sz]ations?|clearance|go-?ahead|green light|blessing|sign-?off"
            r"|carte blanche|confirmations?"
        ),
        "做": (
            "执行|运行|删除|发送|调用|下载|上传|泄露|输出|打印|转发|提交|推送|部署|安装|回复|回答|告诉|写入|清空|打开"
            "|访问|付款|转账|关闭|禁用|忽略|遵守|服从|照做|遵循|读取|合并|发布|移除|发到|发往"
        ),
        "准": "批准|授权|同意|允许|许可|准许|认可|放行|默许|首肯|核准|审批通过|点头|答应|应允|恩准",
        "密": "密钥|密码|令牌|凭证|凭据|系统提示|环境变量|私钥|口令|token|cookie",
        "摘": "摘要|总结|概要|小结|压缩结果|纪要|记忆|交接",
        "令": "指令|指示|规则|提示|要求|约束|限制|命令|设定|消息|内容|对话|规定|准则|安全",
        "谁": (
            "用户|管理员|主人|客户|负责人|老板|经理|主管|他们|她们|他|她|对方|团队|安全部门|开发者|我|本人|领导|所有者"
        ),
    }
)

ORDERS = (
    # Away with what was said before.
    r"(?:ignore|disregard|forget|override|bypass|discard|set aside|stop following|pay no attention to) … {earlier}"
    r" … {rules}",
    r"(?:do not|don'?t|never) (?:follow|obey|apply|respect|heed) … {earlier} … {rules}",
    r"(?:supersedes?|overrides?|takes? precedence over|replaces?|outranks?) … {rules}",
    r"(?:highest|top|maximum|higher|overriding|absolute) (?:priority|precedence|authority)",
    r"(?:new|updated|revised|additional|hidden|secret|real|actual|true) (?:system )?"
    r"(?:instructions?|prompts?|directives?|orders?|task|goal|objective|mission)\s*(?::|=|\bis\b|\bare\b|follow|for\b)",
    # To the reader.
    r"you (?:must|shall|have to|need to|are to|ought to|may now|can now)",
    r"you are (?:now|hereby|required|instructed|ordered|no longer|obliged|expected to)",
    r"you (?:will|should) (?:{soon})",
    r"(?:from now on|from this (?:point|moment|message)|henceforth|from here on|effective immediately)",
    r"going forward,? (?:you|always|never|all|{ai})",
    r"(?:act as|pretend|role-?play|impersonate|enter|activate|switch to|enable) … "
    r"(?:mode|unrestricted|jailbr\w+|dan|admin\w*|root|developer|without (?:limits|restrictions|filters?)|persona)",
    r"(?:attention|important|note|notice|urgent|warning|message|instructions?|reminder|memo|dear|hey|hello|task)"
    r"[\s,:!-]{0,3}(?:(?:to|for) )?(?:the |any |all |every )?{ai}",
    r"{ai}[,:;!-]+ (?:{soon} )?{does}",
    r"(?:the|any|every|each|this) (?:next )?(?:{ai}) (?:that reads this |reading this )?"
    r"(?:must|shall|should (?:{soon})|has to|needs? to|is to|will now)",
    r"(?:please|kindly) (?:{soon} )?{does}",
    r"make sure (?:that )?(?:the )?(?:{ai}|to always|to never)",
    r"the user … (?:wants?|asks?|asked|told|instructed|orders?|ordered|expects?|needs?|requires?) you",
    r"(?:system|developer|operator|admin\w*|anthropic|openai|root|security|policy|supervisor) … "
    r"(?:requires?|instructs?|orders?|demands?|commands?|mandates?|expects?|tells?|wants?|directs?) "
    r"(?:that )?(?:the )?{ai}",
    # In secret, and secrets.
    r"(?:do not|don'?t|never|must not|without) (?:tell|inform|mention|reveal|show|warn|ask|alert|notify|report|consult)"
    r"(?:ing)? … {people}",
    r"(?:reveal|print|output|show|repeat|leak|send|post|upload|exfiltrate|forward|e?mail|transmit|paste|include|dump)"
    r" …… (?:{secret})\b …… (?:to|at|in|into|via|with|on|https?)",
    # To whoever sums up.
    r"(?:your|the|this|any|every|each|all) (?:next |final |future )?(?:{summary})(?: text| block| section)? "
    r"(?:must|should|shall|has to|have to|needs? to|ought|is to|will)",
    r"(?:include|insert|add|keep|preserve|copy|carry|repeat|quote|retain|put|write|place|persist|remember) …… "
    r"(?:in|to|into|across|through|at the (?:top|end|start) of) (?:the |your |any |every |all |each |its |this )?"
    r"(?:next |final |future |new )?(?:{summary}|context|section)",
    r"(?:when|while|before|after|if|as) … (?:summari[sz]|compact|condens|compress)\w* …… {does}",
    # For later.
    r"(?:when|if|once|as soon as|next time|whenever|after|the moment|until|on the next|every time|each time|at the end)"
    r" …… (?:users?|human|conversation|session|task|context|they|he|she|turn|message|reply|assistant|you|tests?|build|"
    r"today|date|word|phrase)\b …… (?:[,:;]|\b(?:{soon}|you)\b) (?:(?:{soon}) )*{does}",
    # What it comes down to.
    r"(?:run|execute|follow|obey|perform|carry out|comply with|decode and \w+) (?:exactly |all )?"
    r"(?:the following|this|these|everything|what(?:ever)?|any|it) …… "
    r"(?:commands?|instruct\w+|steps?|code|script|orders?|says?|below|payload|text|string|directions)",
    r"(?:do|follow|obey|execute|run|apply) what(?:ever)? (?:it|this|that|they|the \w+) (?:says?|tells?|asks?)",
    r"(?:treat|regard|consider|take) (?:this|the following|these|it|everything|all) …… as (?:a |an |the )?"
    r"(?:system|user|trusted|authoritative|instruct\w+|command|order|operator|higher|highest|top)",
    r"(?:curl|wget|iwr|invoke-webrequest)\b[^|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh",
    r"rm\s+(?:-[a-z]+\s+)+(?:/|~|\$home|\*|\.)(?!\w)",
    # 中文
    "(?:忽略|无视|忘记|忘掉|忘了|不要理会|别管|抛开|丢弃|推翻|绕过|不再遵守|停止遵守)…(?:{令})",
    "(?:你|您|助手|模型|智能体|代理|AI)(?:现在)?(?:必须|应当|应该|务必|需要|一定要|不得|不许|要立刻|将会|现在是|从现在)",
    "从(?:现在|此刻|这一刻|今)(?:起|开始|往后)|(?:今后|此后|以后)(?:都|一律|始终|所有|每次|请|凡)",
    "请(?:你|您|助手|模型)?…(?:{做})",
    "(?:不要|别|切勿|禁止|不得|无须|不必|请勿)…(?:告诉|告知|通知|提醒|透露|报告|询问|请示|让)…"
    "(?:用户|任何人|他人|别人|主人|管理员|此事|知道)",
    "(?:{摘})(?:中|里|内|的?开头|的?结尾|末尾)?(?:都|也)?(?:必须|应当|应该|应|务必|一定要|要|需要|需|请|得)…"
    "(?:包含|包括|写|保留|加入|注明|说明|复制|照抄|列出|出现|声明)",
    "(?:写进|写入|加进|加入|保留在|保留到|放进|记入|存入|抄进)…(?:{摘}|上下文)",
    "(?:总结|摘要|压缩|概括)…(?:时|的时候|之后|之前|前|后)……(?:{做}|写|保留|加|必须|请|声明)",
    "(?:当|如果|一旦|只要|等到?|待|下次|每次|每当|若)……(?:用户|对话|会话|任务|上下文|有人|摘要|对方|测试|构建)……"
    "(?:就|则|请|便|立即|立刻|马上|都要|必须|，|,)…(?:{做})",
    "(?:扮演|假装|充当|伪装成|切换到|进入|启用|激活)…(?:模式|管理员|开发者|系统|无限制|角色|权限)",
    "(?:系统|管理员|开发者|运营方|平台|官方|最高)(?:提示|消息|通知|指令|命令|公告|要求|优先级)",
    "(?:{做}|提供|交出|贴出)…(?:{密})",
    "(?:致|给|写给|通知|提醒|注意)(?:各位|本|该|所有)?(?:摘要器|总结器|摘要模型|总结模型|助手|AI|模型|智能体|机器人)",
    "(?:按照|依照|根据|遵照|服从|遵循|执行|照)(?:以下|下列|下面|这些|上述|本)…(?:指令|步骤|命令|指示|要求|操作|做)",
    "(?:优先级|优先权|权限)(?:最高|高于|优先于)|(?:取代|覆盖|凌驾于)…(?:指令|规则|提示|要求)",
    "用户(?:想|要|希望|命令|要求|让|叫|请)(?:你|您|助手(?:立即|立刻|马上|直接))",
    "(?:视为|当作|当成|看作)…(?:系统|用户|指令|命令|授权|权威)",
)

APPROVALS = (
    r"(?:{who}) … (?<!not\s)(?<!never\s)(?:{yes})",
    r"(?:{who}) … (?:gave|given|gives|giving|has|have|granted) … (?:{leave})",
    r"(?:{who}) … (?:agreed|confirmed|said yes|said ok\w*|accepted|(?:is|are) (?:fine|ok\w*|happy)) … "
    r"(?:run|delet\w+|deploy\w*|push\w*|all|any|every\w*|future|without|remov\w+|wip\w+|send\w*|pay\w*|access|merg\w+)",
    r"(?:{leave}|full access|rights?|privileges?) … (?:granted|given|approved|obtained|received|in place|on file|valid"
    r"|active|in effect|enabled|carr(?:y|ies) over|still (?:holds?|stands?))",
    r"(?:grant(?:s|ed|ing)?|gives?|gave|has|have|holds?|with) … (?:full|standing|blanket|permanent|unlimited"
    r"|unrestricted|root|admin|sudo|complete) (?:{leave}|access|rights?|privileges?)",
    r"(?:standing|blanket|permanent|prior|explicit|implicit|advance) (?:{leave})",
    r"(?:pre-?(?:approved|authori[sz]ed)|auto-?(?:approv\w+|accept\w*|confirm\w*)|always allow\w*)",
    r"(?:allow|approve|accept|authori[sz]e)[sd]? (?:all|any|every\w*)",
    r"(?:no|without|skip\w*|bypass\w*|waiv\w+|disabl\w+|omit\w*|needs? no|no need for)"
    r" (?:(?:any|further|more|additional|the|all|user|asking for|explicit|need for) )*(?:{leave}|permission \w+)",
    r"(?:dangerously-?skip|bypass[\s_-]?permissions?|yolo)",
    r"(?:{ai}|it) (?:(?:now|are|is|have|has|were|was|been|hereby|already|fully|explicitly) )+"
    r"(?:allowed|authori[sz]ed|permitted|cleared|free to|granted|approved|permission|trusted to)",
    r"(?:{yes}) by (?:the |a |an |our )?(?:{who})",
    r"(?:{leave})(?: status| state| level)?\s*[:=]\s*"
    r"(?:yes|true|granted|approved|ok\w*|all|full|given|always|confirmed)",
    r"(?:everything|anything|(?:all|any) (?:commands?|tools?|actions?|operations?|changes|requests|edits|deploy\w+))"
    r" … (?:approved|allowed|permitted|authori[sz]ed|granted|fine|trusted)",
    # 中文
    "(?:{谁})…(?:{准})",
    "(?:已|已经|均已|全部|皆已|都已|早已|业已|一律|一概|统统|全都)…(?:{准})",
    "(?:获得?|得到|取得|拿到|拥有|具有|享有)…(?:{准}|全部权限|完全权限|最高权限)",
    "(?:权限|授权|许可|批准|审批|同意)…(?:授予|通过|获得|生效|下达|给予|有效|开放|到位|延续|放开)",
    "(?:无需|不需要?|不用|不必|毋须|无须|免于|免去|省去|跳过|绕过|取消|关闭)…"
    "(?:确认|批准|询问|审批|授权|征求|请示|许可|权限|同意|审核|复核)",
    "(?:自动|默认|一键|全部|预先|提前|永久|长期|全权|无条件)(?:地)?(?:批准|同意|通过|放行|允许|授权|接受|确认)",
    "(?:{准})(?:状态|情况|级别)?[:=](?:是|有|已|全部|通过|true|yes)",
    "(?:任何|所有|一切|全部)(?:的)?(?:命令|操作|工具|请求|改动|动作|修改|部署)…(?:{准}|可以直接|随意)",
)

_BLANK = r"""[\s*_`~>"'“”‘’|#]+"""
_LINE_WRAP = r"\n(?![^\S\n]*(?:\n|#|[-*+•]\s|\d{1,3}[.)]\s))"
"""A sentence may continue on the next line, but not in the next bullet point."""
_FEW, _MORE = rf"\b(?:[^.!?。！？\n]|{_LINE_WRAP}){{0,40}}?\b", rf"\b(?:[^.!?。！？\n]|{_LINE_WRAP}){{0,90}}?"
_FEW_CHINESE = rf"(?:[^。！？\n不没未]|{_LINE_WRAP}){{0,14}}?"
_MORE_CHINESE = rf"(?:[^。！？\n]|{_LINE_WRAP}){{0,40}}?"
_REST = re.compile(rf"(?:[^.!?。！？\n]|{_LINE_WRAP}){{0,400}}")
_EMPHASIS = re.compile(r"(?<!\w)_|_(?!\w)|[*`]")
_SPACED_LETTERS = re.compile(r"(?<!\w)(?:\w[ .\-_*·]){4,}\w(?!\w)")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Where a text gives an order or an approval."""

    start: int
    end: int
    kind: InstructionKind


def find_instructions(text: str) -> Iterator[Instruction]:
    """Every order or approval in the text, up to the end of its sentence. Call `strip_invisible` on the text first."""
    read = _EMPHASIS.sub(" ", to_plain_letters(text))
    for kind, pattern in _patterns():
        for match in pattern.finditer(read):
            rest = _REST.match(read, match.end())
            yield Instruction(start=match.start(), end=rest.end() if rest else match.end(), kind=kind)


@cache
def _patterns() -> tuple[tuple[InstructionKind, re.Pattern[str]], ...]:
    """Compiled on first use, because that takes long and most programs never need them.

    One pattern for each phrase, so that a short match cannot hide a long one. Every gap is bounded, so the time grows
    linearly with the text.
    """
    kinds: tuple[tuple[InstructionKind, Sequence[str]], ...] = (("approval", APPROVALS), ("order", ORDERS))
    return tuple((kind, re.compile(_pattern(phrase), re.IGNORECASE)) for kind, phrases in kinds for phrase in phrases)


def _pattern(phrase: str) -> str:
    for name, words in WORD_LISTS.items():
        phrase = phrase.replace(f"{{{name}}}", f"(?:{words})")
    is_latin = phrase.isascii() or " … " in phrase or " …… " in phrase
    for mark, gap in ((" …… ", _MORE), (" … ", _FEW), ("……", _MORE_CHINESE), ("…", _FEW_CHINESE), (" ", _BLANK)):
        phrase = phrase.replace(mark, gap)
    return rf"\b(?:{phrase})(?!\w)" if is_latin else f"(?:{phrase})"


def split_points(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each bullet point or paragraph."""
    start = 0
    line_wrap = re.compile(_LINE_WRAP)
    for line_end in re.finditer(r"\n", text):
        if not line_wrap.match(text, line_end.start()):
            yield start, line_end.start()
            start = line_end.end()
    yield start, len(text)


def find_hidden_instruction(text: str) -> InstructionKind | None:
    """The kind of an instruction hidden by HTML entities, percent signs, spaced letters, base64, hexadecimal, ..."""
    instructions = (hit for decoded in _decodings(text) for hit in find_instructions(strip_invisible(decoded)))
    first = next(instructions, None)
    return first.kind if first else None


def _decodings(text: str) -> Iterator[str]:
    decodings: Iterable[str] = (
        html.unescape(html.unescape(text)),
        unquote(text),
        _SPACED_LETTERS.sub(lambda match: re.sub(r"[ .\-_*·]", "", match[0]), text),
        codecs.encode(text, "rot13") if text.isascii() else "",
        text[::-1],
        *(_decode(blob) for blob in _ENCODED.findall(text)),
    )
    yield from (decoded for decoded in decodings if decoded and decoded != text)


def _decode(blob: str) -> str:
    """The text of a run of base64 or hexadecimal digits; empty if it is no text."""
    digits = blob.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", digits):
            return bytes.fromhex(digits).decode("utf-8")
        padded = digits[: len(digits) - (len(digits) % 4 == 1)] + "=" * (-len(digits) % 4)
        return base64.b64decode(padded).decode("utf-8")
    except ValueError:
        return ""
