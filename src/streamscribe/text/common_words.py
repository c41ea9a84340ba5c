"""Words that nobody needs corrected: what stands among them is not a name that was misheard."""

CHARS = frozenset(
    "的一是不了在人有我他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都"
    "然没日于起还发成事只作当想看用主行方又如前所本见头面公同三已动两长知样现分将外但身些与从走做手己间给进问把被让叫吧吗呢啊"
    "哦嗯很太最更比再才刚正每谁哪它您咱二四五六七八九十百千万亿点回开无她像跟等向往该使此先许"
)
"""Single characters that are usual words by themselves."""

_ENGLISH = """
a about above after again all almost also always am an and any are around as ask at away back be became because been
before began being below best better between big book both boy but buy by call came can car change city close come
could course cut day days did different do does done door down each early eat end enough even ever every eye eyes face
fact family far fast feel feet few find first five follow food for found four friend from full gave get girl give go
goes going good got great group had half hand happy hard has have he head hear help her here high him his home hot
house how however i idea if important in inside into is it its just keep kind knew know land large last late later
learn leave left less let life light like line list little live long look lot love made make man many may maybe me
mean men might mind minute money month more morning most mother move much must my name near need net never new next
night no not note now number of off often oh okay old on once one only open or order other our out over own page paper
part people person place plan play please point put question quick quite ran read ready real really red right room run
said same saw say says school sea second see seem sell send sentence set she should show side small so some something
soon sound start state still stop story study such sure table take talk tell ten than thank thanks that the their them
then there these they thing things think this those though thought three through time to today together told tomorrow
too took top toward tree true try turn two under until up us use used very wait walk want was watch water way we week
well went were what when where which while white who whole why will wish with without woman word words work world
would write wrong year years yes yet you young your
"""
ENGLISH = frozenset(_ENGLISH.split())
"""The usual words of English."""
