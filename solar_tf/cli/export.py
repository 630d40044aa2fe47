"""The command that writes a run for other programs."""

from solar_tf.cli.programs import add_command, program
from solar_tf.export import engines, quantized, saved_model
from solar_tf.retrieval.ranking import EVIDENCE_FLOOR, SCORES
from solar_tf.run.directory import searchable
from solar_tf.run.precision import PRECISIONS

ENGINES = {
    "qdrant": "a folder of qdrant-edge, or a Qdrant server",
    "milvus": "a Milvus server",
    "elasticsearch": "bulk files, or an Elasticsearch server",
    "opensearch": "bulk files, or an OpenSearch server",
}


def export(arguments):
    """Write a trained run for other programs, or its label vectors to an engine, and search there.

        solar export saved_model RUN FOLDER               the query encoder, for TensorFlow
        solar export quantized RUN FOLDER --precision int8     a smaller run, for searching
        solar export qdrant RUN FOLDER                    qdrant-edge, in this process
        solar export qdrant RUN http://127.0.0.1:6333     a Qdrant server
        solar export milvus RUN http://127.0.0.1:19530    a Milvus server
        solar export elasticsearch RUN FOLDER             mapping and bulk files
        solar export opensearch RUN FOLDER
        solar export qdrant RUN FOLDER --query "web forms"     search what was written

    docs/export.md is about the first two; docs/engines.md says which engines were run here, and
    what they need to rank as infer.py does.
    """
    options = vars(_parser().parse_args(arguments))
    target, run = options.pop("target"), searchable(options.pop("run"))
    if target in ENGINES:
        engines.export(target, run, **options)
    else:
        {"saved_model": saved_model, "quantized": quantized}[target].export(run, **options)


def _parser():
    parser = program("export", export.__doc__)
    targets = parser.add_subparsers(dest="target", required=True, metavar="TARGET")

    def add_target(name, text, out, meaning):
        target = add_command(targets, name, text)
        target.add_argument("run", metavar="RUN", help="a trained run")
        target.add_argument("out", metavar=out, help=meaning)
        return target

    text = "the query encoder, for TensorFlow and its servers"
    target = add_target("saved_model", text, "FOLDER", "the SavedModel to make; must not exist")
    _add_num_chunks(target)
    text = "a smaller run, for searching: weights in float16 or int8"
    target = add_target("quantized", text, "FOLDER", "the run to make; must not exist")
    target.add_argument("--precision", choices=PRECISIONS[1:], default="int8", help="[int8]")
    for name, text in ENGINES.items():
        target = add_target(name, text, "OUT", "a folder, or the address of a server")
        target.add_argument("--name", default="solar", help="of the collection or index [solar]")
        _add_num_chunks(target)
        query = target.add_argument_group("searching")
        query.add_argument("--query", help="a text to answer from OUT, instead of writing it")
        query.add_argument("--top_buckets", type=int, default=100, help="m [100]")
        query.add_argument("--top_labels", type=int, default=10, help="labels to show [10]")
        query.add_argument("--score", choices=SCORES, default="evidence", help="[evidence]")
        query.add_argument("--evidence_floor", type=float, default=EVIDENCE_FLOOR, help="[1e-4]")
    return parser


def _add_num_chunks(parser):
    parser.add_argument("--num_chunks", type=int, help="the first chunks only [all]")
