"""Tests mistakes in typed commands. Each prints one line that says what is wrong and what would be right, has the exit
code that scripts rely on, and changes no file."""

import itertools
import os
import re
import shlex
import signal
import subprocess
import unittest

from command import TRAINING_NET, CommandTest
from digits_net import digits_net
from multigrid_command import NAMES, chain_arrays, few_digits, safetensors

REPORT = """{"format": "ucudnn-report", "version": 2, "device": "Some GPU", "cudnn": 91900, "mode": "on", "measured": 0,
 "limit_bytes": null, "kernels": [], "fallbacks": []}"""
MISH_NET = """input: "x" input_dim: [1, 3, 8, 8] layer { name: "a" type: "Mish" bottom: "x" top: "y" }
layer { name: "c" type: "Convolution" bottom: "y" top: "c" convolution_param { num_output: 0 } }"""
HUGE_NET = {"format": "ucudnn-net", "version": 1, "name": "huge", "nodes": [
    {"name": "data", "op": "input", "channels": 2, "extents": [1, 1]},
    *({"name": f"fc{number}", "op": "fully_connected", "inputs": [before], "outputs": 2_000_000}
      for number, before in ((1, "data"), (2, "fc1")))]}
LAYER = {"name": "conv1", "n": "8", "c": "3", "h": "16", "w": "16", "k": "8", "r": "3", "s": "3"}
ROW = LAYER | {"op": "forward", "engine": "legacy:1", "micro_batch": "8", "time_ms": "1.5", "workspace_bytes": "0",
               "deterministic": "1", "cudnn": "91900", "driver": "13000", "device": "Some GPU"}

SIZE = "(accepted: caller, auto or a size: bytes, or with KiB, MiB, GiB)"
UNCUT = "it cuts no image, as d, h or w of 2 parts do"
GRID = "(accepted: n, d, h and w, each at most once and with its number of parts, as in h4, h2w2, d2h2w2 or n2h4)"
NETWORKS = "expected one of alexnet, … video-vae, or a file that ends in .onnx, .prototxt or .json"
SOURCES = "exactly one of --layers FILE.csv, --net NAME|FILE and --trace FILE.json is needed"
WRITTEN_REPORT = "expected what --report or `ucudnn workspace --json` wrote"
BENCH, WORKSPACE = "bench --layers layers.csv", "workspace --layers layers.csv --ops forward --db s.db"
PLAN = "plan alexnet --machine k80x16 --batch 32"
OWT = "plan alexnet --machine k80x16 --batch 512 --strategy owt --schedule"
SPATIAL = "spatial h2 --net alexnet --batch 4"
MULTIGRID = "multigrid kirby-3m --layers 16 --coarsening 4"
TRAINED, DEVICE = f"{MULTIGRID} --train few", f"{MULTIGRID} --backend cudnn"
RANKS = "multigrid kirby-3m --layers 21 --coarsening 3 --devices"
ANALYSED = "multigrid kirby-3m --layers 64 --analyse --machine h100x8"
CHAIN = "multigrid chain --weights chain.safetensors"
WHOLE, ABOVE_0 = "expected a whole number from", "expected a number above 0"
LISTED = "expected whole numbers from 2 to 1048576, with commas between"
SWEEPS = "expected F, FCF or FCFCF, or one for each level with commas between"
TWO_STEPS = "no residual step follows it at once, nor any other; expected two or more of one shape in a row"
GRID_FORM = "expected n, d, h and w, each at most once and with its number of parts, as in h4, h2w2, d2h2w2 or n2h4"

# Each row has the words after `ucudnn`, the exit code, and the line after "ucudnn: " or "ucudnn COMMAND: ". In the
# line, … stands for any text.
MISTAKES = [
    # ---- Words that are not a command, or are in the wrong place.
    ("", 2, "which command? One of run, bench, net, plan, spatial, multigrid, cache, workspace, report and doctor; see --help"),
    ("rum -- true", 2, "'rum' is not a command; the commands are run, bench, net, plan, spatial, multigrid, cache, workspace, report and doctor"),
    ("--policy all run -- true", 2, "--policy is an option of `ucudnn run`, and is written behind that"),
    ("cache", 2, "which command? One of show, import, export, merge, verify and prune; see --help"),
    ("cache shwo", 2, "'shwo' is not a command; the commands are show, import, export, merge, verify and prune"),
    ("cache --db s.db show", 2, "--db is an option of `ucudnn cache show`, and is written behind that"),
    ("cache show s.db", 2, "'s.db' is not expected; usage: ucudnn cache show [--device NAME] [--db PATH] [--json]"),
    ("bench layers.csv", 2, "'layers.csv' is not expected; usage: ucudnn bench (--layers FILE.csv | --net …"),
    ("plan alexnet vgg16 --machine k80x16 --batch 8", 2, "'vgg16' is not expected; usage: ucudnn plan NET --machine FILE|NAME …"),
    ("report report.json report.json", 2, "'report.json': splits nothing; several reports are those of the ranks of one job"),
    *[(f"{words} -- true", 2, "takes no program; -- belongs to run and doctor")
      for words in ("report report.json", SPATIAL, PLAN, "cache show")],
    # ---- The program.
    ("run", 2, "no program; it is written behind --, as in `ucudnn run -- python3 a.py`"),
    *[(f"{what} {words}", code, line) for what in ("run", "doctor") for words, code, line in (
        ("--", 2, f"no program behind --, as in `ucudnn {what} -- python3 a.py`"),
        ("-- pyhton3 a.py", 127, "'pyhton3' is not in PATH"),
        ("./program", 2,
         f"'./program' is not expected; the program is written behind --, as in `ucudnn {what} -- ./program`"))],
    ("run -- program", 127, "'program' is not in PATH; the one in this folder is ./program"),
    ("run -- ./pogram", 127, "'./pogram': there is no such file"),
    ("run -- ''", 127, "'' is not in PATH"),
    ("run -- ./folder", 126, "'./folder': is a folder"),
    ("run -- ./text", 126, "'./text': is not executable; `chmod +x` makes it so, or name what runs it before it"),
    ("run -- text/program", 126, "'text/program': Not a directory"),
    ("run -- ./cut-program", 126, "'./cut-program' is …"),
    *[(f"run --off {ranks}-- ./no-interpreter", 126, "'./no-interpreter' cannot be started: its first line names "
       "'/no/such/interpreter', which is not there") for ranks in ("", "--ranks 3 ")],
    ("doctor --json -- ./text", 126, "'./text': is not executable; …"),
    # ---- Options that do not exist, are repeated, lack their value, or have a value but take none.
    *[(typed, 2, f"{typo} is not an option; did you mean {meant}?") for typed, typo, meant in (
        ("--hepl", "--hepl", "--help"), ("run --polcy all -- true", "--polcy", "--policy"),
        ("run --workspace_limit=1GiB -- true", "--workspace_limit", "--workspace-limit"),
        ("run -policy all -- true", "-policy", "--policy"), ("run --rank 2 -- true", "--rank", "--ranks"),
        ("cache prune --dryrun", "--dryrun", "--dry-run"), ("multigrid kirby-3m --cyles", "--cyles", "--cycles"),
        (f"{SPATIAL} --jsn", "--jsn", "--json"))],
    *[(f"multigrid kirby-3m {typed}", 2, f"{gone} is no longer there; {instead}") for typed, gone, instead in (
        ("--cycle F", "--cycle", "every cycle is a V-cycle, and --cycles N says how many run"),
        ("--c-weight 1.1", "--c-weight", "C-relaxation has no weight, and --relaxation says how often"),
        ("--host --way threads", "--way threads", "--way streams has one thread for all streams"),
        ("--host --way=one", "--way one", "--way streams --streams 1 runs block after block"),
        *((f"--coarse {name}", f"--coarse {name}", "expected inject or sum") for name in ("mean", "mid", "sum2")))],
    ("run --json -- true", 2, "--json is not an option; `ucudnn run --help` names them"),
    ("run --policy -- true", 2, "--policy needs a value: micro-batch sizes that are measured (auto, undivided, powerOfTwo, all; default: auto)"),
    ("run --policy --off -- true", 2, "--policy has no value, but --off behind it; it needs a value: micro-batch sizes that are …"),
    ("run --policy= -- true", 2, "--policy needs a value: …"),
    ("run --report '' -- true", 2, "--report '' is empty; it needs a value: JSON report of every decision (a path, %p is the process id; …"),
    ("run --policy all --policy undivided -- true", 2, "--policy is given twice; give it once"),
    ("run --off --off --off -- true", 2, "--off is given 3 times; give it once"),
    *[(typed, 2, f"{option} takes no value: it is written alone, or left out") for typed, option in (
        ("run --deterministic=maybe -- true", "--deterministic"), ("run --off=no -- true", "--off"),
        ("bench --json=0", "--json"))],
    ("bench --net --batch 4", 2, "--net has no value, but --batch behind it; it needs a value: layers of a network: …"),
    ("workspace -o", 2, "-o needs a value: write the plan to a file"),
    ("plan alexnet", 2, "--machine is required; usage: ucudnn plan NET --machine FILE|NAME --batch N [OPTIONS]"),
    ("plan", 2, "NET is required; usage: ucudnn plan NET --machine FILE|NAME --batch N [OPTIONS]"),
    ("plan '' --machine k80x16 --batch 4", 2, "NET '' is empty; it needs a value: FILE.onnx, FILE.prototxt (Caffe), FILE.json …"),
    *[(f"spatial {words}", 2, f"{lacks} is required; usage: ucudnn spatial GRID --net FILE|NAME --batch N [OPTIONS]")
      for words, lacks in (("--net alexnet --batch 4", "GRID"), ("h2 --batch 4", "--net"), ("h2 --net alexnet", "--batch"))],
    ("multigrid", 2, "NET is required; usage: ucudnn multigrid NET [OPTIONS]"),
    ("multigrid kirby-3m chain", 2, "'chain' is not expected; usage: ucudnn multigrid NET [OPTIONS]"),
    ("multigrid kirby-3m --machine k80x16", 2, "--machine: says where to model solves; expected --analyse"),
    ("multigrid kirby-3m --weights ''", 2, "--weights '' is empty; it needs a value: …"),
    ("spatial h2 alexnet --net alexnet --batch 4", 2, "'alexnet' is not expected; usage: ucudnn spatial GRID --net FILE|NAME --batch N [OPTIONS]"),
    ("report", 2, "FILE.json is required; usage: ucudnn report FILE.json... [-o report.html] [--db PATH]"),
    ("report report.json -o a -o b", 2, "-o is given twice; give it once"),
    ("cache import", 2, "FILE.csv is required; usage: ucudnn cache import FILE.csv [--device NAME] [--db PATH]"),
    ("cache import rows.csv --device --db s.db", 2, "--device has no value, but --db behind it; it needs a value: device of rows …"),
    ("cache merge", 2, "STORE is required; usage: ucudnn cache merge STORE... [--device NAME] [--db PATH]"),
    ("doctor --pid", 2, "--pid needs a value: look at a running process"),
    # ---- Values that an option does not accept.
    *[(words, 2, "--policy 'some': not one of the accepted values (accepted: auto, undivided, powerOfTwo, all)")
      for words in ("run --policy some -- true", "doctor --policy some -- true", f"{BENCH} --policy some")],
    *[(f"run --workspace-limit {size} -- true", 2, f"--workspace-limit '{size}': not a size {SIZE}")
      for size in ("64mb", "-5", "1.5GiB", "99999999999GiB")],
    ("run --total-workspace 0 -- true", 2, "--total-workspace '0': no budget; a workspace limit of 0 plans without workspace (accepted: …"),
    ("run --total-workspace 1GiB --division sharde -- true", 2,
     "--division 'sharde': not one of the accepted values (accepted: disjoint, shared, concurrent)"),
    ("run --total-workspace 1GiB --solver gplk -- true", 2, "--solver 'gplk': not one of the accepted values (accepted: exact, glpk)"),
    ("run --engines graf -- true", 2, "--engines 'graf': not one of the accepted values (accepted: legacy, graph, both)"),
    ("run --dlsym maybe -- true", 2, "--dlsym 'maybe': not auto, on or off"),
    ("doctor --dlsym maybe -- true", 2, "--dlsym 'maybe': not auto, on or off"),
    (f"{BENCH} --engines some", 2, "--engines 'some': not one of the accepted values (accepted: legacy, graph, both)"),
    ("run --db a.db::b.db -- true", 2, "--db 'a.db::b.db': an empty path between colons (accepted: none or paths separated by colons)"),
    *[(f"run --host --devices={n} -- true", 2, f"--devices '{n}': not a number from 1 to 64") for n in ("0", "65", "two", "1.5", "-1")],
    ("run --host --device-memory 0 -- true", 2, "--device-memory '0': a device needs memory, as 4GiB"),
    ("run --host --device-memory lots -- true", 2, "--device-memory: 'lots' is not a size: expected a whole number of bytes or …"),
    *[(f"run --host --device-memory {size} -- true", 2, f"--device-memory: '{size}' has an unknown unit: expected a whole number of bytes or …")
      for size in ("4GB", "4XB")],
    *[(f"run --ranks {n} -- true", 2, f"--ranks '{n}': not a number from 1 to 64") for n in ("0", "65", "four", "-1", "2.5")],
    ("run --ranks -- true", 2, "--ranks needs a value: start the program N times on this machine, as the ranks of one job, …"),
    ("run --ranks 2 --ranks 3 -- true", 2, "--ranks is given twice; give it once"),
    *[(f"run --spatial {grid} -- true", 2, f"--spatial '{grid}': {why} {GRID}") for grid, why in (
        ("4", "'4' is no axis"), ("h", "h has no number of parts"), ("h0", "h has 0 parts, where 1 is the least"),
        ("h2x2", "'x' is no axis"), ("h2h2", "h comes twice"), ("h1", UNCUT), ("n4", UNCUT),
        ("h99999", "it has more than 4096 ranks"))],
    ("run --spatial '' -- true", 2, "--spatial '' is empty; it needs a value: split images over ranks: …"),
    *[(typed, 2, f"{named} is no network; {NETWORKS}") for typed, named in (
        ("bench --net alexnot --batch 4", "--net 'alexnot'"), ("bench --net folder --batch 4", "--net 'folder'"),
        ("plan alexnot --machine k80x16 --batch 4", "'alexnot'"), ("net lenet", "'lenet'"), ("plan text --machine k80x16 --batch 4", "'text'"),
        ("multigrid kirby-4m", "'kirby-4m'"), ("spatial h2 --net alexnot --batch 4", "--net 'alexnot'"),
        ("spatial h2 --net text --batch 4", "--net 'text'"))],
    *[(f"{typed}{net}{batch}", 2, f"{option}{net}: {why}")
      for typed, option, batch in (("bench --net ", "--net ", " --batch 4"), ("spatial h2 --net ", "--net ", " --batch 4"),
                                   ("multigrid ", "", ""))
      for net, why in (("none.onnx", "cannot be read: No such file or directory"),
                       ("foreign.json", "'format': 'else'; expected 'ucudnn-net'"))],
    ("bench --net alexnet --batch 0", 2, "--batch '0': not a mini-batch (accepted: 1 or more)"),
    ("bench --net alexnet --batch 4 --ops fwd", 2,
     "--ops 'fwd': 'fwd' is not an operation; expected one of forward, backward_data, backward_filter"),
    (f"{BENCH} --devices 0,0", 2, "--devices '0,0': device 0 is named twice (accepted: current, all, or numbers separated by commas)"),
    *[(f"{BENCH} --devices={of}", 2, f"--devices '{of}': not a list of numbers (accepted: current, all, or numbers separated by commas)")
      for of in ("0,x", "-1", "0,", "99999999999")],
    (f"{BENCH} --batch 99999999999", 2, "--batch '99999999999': not a mini-batch (accepted: 1 or more)"),
    (f"{BENCH} --ops forward,sideways", 2, "--ops 'forward,sideways': 'sideways' is not an operation; expected one of …"),
    *[(f"{words} --workspace-limit auto", 2, "--workspace-limit 'auto': comes from a device's free memory, and there is none offline …")
      for words in (WORKSPACE, f"{PLAN} --cost measured --db s.db")],
    (f"{BENCH} --workspace-limit auto", 2, "--workspace-limit 'auto': comes from the memory that a running program leaves, …"),
    *[(f"{words} --device 'Other GPU'", 2, "--device 'Other GPU': no measurements (there are those of 'Some GPU')")
      for words in (WORKSPACE, f"{PLAN} --cost measured --db s.db")],
    *[(f"cache {what} --db s.db --device 'Other GPU'", 2, "--device 'Other GPU': there are no rows of it, but of 'Some GPU'")
      for what in ("show", "prune")],
    ("plan alexnet --machine k80x17 --batch 4", 2, "--machine k80x17: cannot be opened: No such file or directory; it is none of k80x16, …"),
    ("plan alexnet --machine k80x16:x --batch 4", 2, "--machine 'k80x16:x': expected a number of nodes behind the colon"),
    ("plan alexnet --machine k80x16 --batch ten", 2, "--batch 'ten': not a mini-batch (accepted: 1 or more)"),
    (f"{PLAN} --strategy deep", 2, "--strategy 'deep' is no strategy; expected one of image, model, owt, deepa"),
    (f"{PLAN} --cost rofline", 2, "--cost rofline: cannot be opened: …; it is neither roofline nor deepa-paper nor measured"),
    *[(f"{PLAN} {more}--update {how}", 2,
       f"--update '{how}': expected one of parameter-server, ring, tree, hierarchical, owner")
      for more, how in (("", "rin"), ("--schedule ", "gossip"))],
    *[(f"{PLAN} --memory-limit {size}", 2, f"--memory-limit '{size}': expected device or a size from 1 B: …")
      for size in ("lots", "0")],
    (f"{PLAN} --memory-limit 1MiB", 2, "--memory-limit '1MiB': no plan fits 1 MiB on a device; the smallest found needs … MiB"),
    ("plan alexnet --machine k80x16 --batch 24 --strategy image", 2,
     "strategy image: layer 'conv1' with output … has no configuration that divides images by 16"),
    (f"{PLAN} --pin pool5=r2", 2, "pin 'pool5' …: its input 32x256x13x13 or output … cannot be divided so on 16 devices"),
    *[(f"plan train_val.prototxt --machine k80x16 --batch 64 --input {wrong}", 2,
       f"--input '{wrong}': expected channels, height and width of an image, as in 3x224x224")
      for wrong in ("28x28", "1x28x0", "1x28x28x", "axbxc", "1x2x3x4x5")],
    *[(f"plan {net} --machine k80x16 --batch 64 --input 1x28x28", 2,
       f"'{net}': images can be given for a .prototxt or a .onnx, and this is none") for net in ("alexnet", "resnet50")],
    (f"{PLAN} --pin fc6", 2, "--pin 'fc6'; expected a layer and its degrees, as fc6=c4 or conv1=n4h2w2"),
    (f"{PLAN} --pin fc66=c4", 2, "--pin 'fc66': alexnet has no such layer; did you mean fc6?"),
    (f"{PLAN} --pin fc6=c4 --pin fc6=c2", 2, "--pin: fc6 is pinned twice; pin a layer once"),
    (f"{PLAN} --what-if everything", 2, "--what-if 'everything': alexnet has no such layer; its layers are conv1, pool1, …"),
    *[(f"{PLAN} --best {n}", 2, f"--best '{n}': accepted: 1 to 1000") for n in ("0", "x")],
    (f"{PLAN} --frontier 101", 2, "--frontier '101': accepted: 1 to 100"),
    ("plan alexnet --machine k80x16:2 --batch 8", 2,
     "--machine 'k80x16:2': no network between nodes is known; expected k80x16, or N nodes as h100x8:N, h200x8:N, v100x2-25g:N"),
    (f"{OWT} --scheme d", 2, "--scheme 'd': expected a, b or c"),
    (f"{OWT} --scheme c --passes 33", 2, "scheme c: 33 passes; expected 1 to 32, the images of one worker"),
    ("plan unet --machine k80x16 --batch 16 --schedule --pin classes=h2", 2,
     "layer 'classes' with {n=1, c=1, h=2, w=1}: the loss of output 'prob' needs all positions of an image; expected h and w of 1"),
    (f"{OWT} --scheme b --passes none", 2, "--passes 'none': expected 1 to 4096"),
    (f"{OWT} --scheme b --update-every step", 2, "--update-every 'step': expected pass or batch"),
    *[(f"multigrid kirby-3m {option}={value}", 2, f"{option} '{value}': {line}") for option, values, line in (
        ("--layers", "1 1e3", f"{WHOLE} 2 to 1048576"), ("--seed", "-1", f"{WHOLE} 0 to 2147483646"),
        ("--threads", "0", f"{WHOLE} 1 to 1024"), ("--batch", "0", f"{WHOLE} 1 to 1048576"), ("--levels", "0", f"{WHOLE} 1 to 64"),
        ("--cycles", "0 two", f"{WHOLE} 1 to 1000"), ("--tolerance", "0 -1 nan 1e-9x", ABOVE_0), ("--time", "0", ABOVE_0),
        ("--step", "inf", ABOVE_0), ("--coarsening", "1 8, 8;4", LISTED), ("--depths", "64,1", LISTED),
        ("--relaxation", "CF FCF,f", SWEEPS), ("--norm", "max", "expected one of absolute, relative"),
        ("--start", "last", "expected one of broadcast, nested, previous"), ("--storage", "none", "expected one of all, c-points"),
        ("--backend", "cuda", "expected one of cpu64, cudnn"), ("--check", "every:3 often", "expected once; every:K is of training"),
        ("--method", "serial", "expected one of multigrid, partitioned")) for value in values.split()],
    ("multigrid kirby-3m --coarse max", 2, "--coarse 'max' is no coarse operator; expected one of inject, sum"),
    (f"{CHAIN} --activation gelu", 2, "--activation 'gelu': expected one of relu, tanh"),
    *[(f"{words} {option} {value}", 2, f"{option} '{value}': {line}") for words, option, value, line in (
        (DEVICE, "--way", "blocks", "expected one of auto, streams, grouped"),
        (DEVICE, "--launch", "graphs", "expected one of auto, each, graph"),
        (DEVICE, "--precision", "fp8", "expected one of fp32, tf32, fp16, bf16"),
        (DEVICE, "--streams", "0", f"{WHOLE} 1 to 1024"), (DEVICE, "--workspace-limit", "64mb", "expected bytes, as in 64MiB"),
        (TRAINED, "--rate", "0", ABOVE_0), (TRAINED, "--epochs", "0", f"{WHOLE} 1 to 1048576"),
        (TRAINED, "--examples", "0", f"{WHOLE} 1 to 1073741824"), (TRAINED, "--backward-cycles", "0", f"{WHOLE} 1 to 1000"),
        *((TRAINED, "--momentum", value, "expected a number from 0 to below 1") for value in ("1", "-0.1")),
        (TRAINED, "--check", "once", "expected every:K, as in every:10: once is of a single solve"),
        *((TRAINED, "--check", often, "expected every:K with a whole number of steps, as in every:10")
          for often in ("every:0", "every:x", "every:")))],
    (f"{RANKS} 0", 2, f"--devices '0': {WHOLE} 1 to 1024"),
    *[(f"{ANALYSED} --devices {devices}", 2, f"--devices '{wrong}': {WHOLE} 1 to 8, as 'h100x8' has devices")
      for devices, wrong in (("9", "9"), ("0", "0"), ("1,,2", ""))],
    ("multigrid kirby-3m --layers 2 --coarsening 2 --analyse --machine h100x8 --devices 5", 2,
     f"--devices '5': {WHOLE} 1 to 4, as 'kirby-3m' has layers"),
    ("multigrid kirby-3m --layers 64 --analyse --machine h101x8", 2, "--machine h101x8: …; it is none of k80x16, …v100x2-25g"),
    (f"{ANALYSED} --tolerance 0", 2, f"--tolerance '0': {ABOVE_0}"),
    (f"{ANALYSED} --levels 1", 2, "--levels 1: is serial propagation, with which --analyse compares multigrid; expected 2 or more levels"),
    (f"{ANALYSED} --levels 6", 2, "'kirby-3m': level 4 would have 1 layer (4 coarsened by 4); at least 2 are expected: …"),
    (f"{ANALYSED} --coarsening 64", 2, "'kirby-3m': coarsening by 64 of 64 layers leaves fewer than 2; at most 32 is expected"),
    ("multigrid kirby-3m --layers 64 --coarsening 65", 2, "coarsening by 65 of 64 layers leaves fewer than 2; at most 32 is expected"),
    ("multigrid resnet18-v2 --frozen-norms", 2, "no stage of 'resnet18-v2' has layers enough for two levels; a smaller coarsening or "
                                                "--levels 1 is expected"),
    *[(f"{words} --tolerance 1e-17", 2, "tolerance 1e-17 is below what states of this precision can reach, about …e-15: a larger one, "
                                        "or a wider type") for words in (MULTIGRID, f"{TRAINED} --json")],
    (f"{RANKS} 8", 2, "8 devices for 7 blocks of layers; at most as many devices, or a smaller coarsening, are expected"),
    *[(f"multigrid {net} {option} {value}", 2, f"{option}: '{net}' has the layers that it has; expected kirby-3m, which can have others")
      for net, option, value in (("resnet18-v2", "--layers", "64"), ("alexnet", "--depths", "64,128"))],
    ("multigrid digits1.json", 2, f"digits1: node 'step1.add': {TWO_STEPS}"),
    ("multigrid none.json", 2, "none.json: …No such file or directory"),
    ("multigrid resnet18 --analyse", 2, "resnet18: node …"),
    (f"{MULTIGRID} --batch 1048576", 2, "the states of a mini-batch of 1048576 images take … GiB, and … of memory are free; expected "
                                        "a smaller --batch, or --storage c-points"),
    (f"{RANKS} 3 --batch 1048576", 2, "layers and states of 3 devices on this machine take … and … of memory are free; expected devices "
                                      "on more machines, a smaller --batch, or --storage c-points"),
    *[(f"multigrid huge.json{words}", 2, f"huge: 4000008000000 parameters take … GiB in double precision{more}, and … of memory are "
                                         "free; expected a machine with more, or a smaller network")
      for words, more in (("", ""), (" --train few", " with their gradients and velocities"))],
    *[(f"multigrid chain{words}", 2, line) for words, line in (
        ("", "chain: --weights FILE.safetensors is expected, with its arrays K, b and u0"),
        (" --weights text", "text: …"), (" --weights folder", "folder: …"),
        (" --weights none.safetensors", "none.safetensors: cannot be opened: No such file or directory"),
        (" --weights one.safetensors", f"chain: …'step1.add'…{TWO_STEPS}"),
        (" --weights no-k.safetensors", "no-k.safetensors: no array 'K' among 'b', 'u0'; expected 'K' [N, C, C, k, k], 'b' [N, C] "
                                         "and 'u0' [C, H, W]"))],
    *[(f"{MULTIGRID} --train {words}", 2, line) for words, line in (
        ("text", "--train text: a file; expected a folder with the four files of MNIST, …"),
        ("none", "--train none: there is no such folder; expected a folder with the four files of MNIST, or with others so called"),
        ("folder", f"--train folder/{NAMES[0]}: cannot be opened: No such file or directory; expected it or {NAMES[0]}.gz, two of the "
                   "names of MNIST's files"),
        ("few --batch 2 --batch 5", "--batch is given twice…"),
        ("few --batch 33", "--batch 33: there are 32 images to train on; expected at most as many in a mini-batch"),
        ("few --devices 2 --data-parallel 3 --batch 16",
         "--batch 16: there are 32 images to train on; expected at most as many in 3 mini-batches at once"))],
    ("multigrid resnet18-v2 --frozen-norms --levels 1 --train few", 2,
     "--train: 'resnet18-v2' takes images of 3 channels and gives 1000 numbers; expected a network for digits, of one channel and 10 classes"),
    *[(f"spatial {grid} --net alexnet --batch 4", 2, f"'{grid}' is not a spatial grid: {why}; {GRID_FORM}")
      for grid, why in (("4", "'4' is no axis"), ("h1", UNCUT), ("n2", UNCUT))],
    ("spatial d2h2 --net alexnet --batch 4", 2, "the grid d2h2 cuts d, which 'alexnet', of two axes, does not have"),
    ("spatial n2h2 --net alexnet --batch 3", 2, "a batch of 3 is not divided by the 2 groups of the grid n2h2"),
    ("spatial h2 --net alexnet --batch 0", 2, "--batch '0': not a mini-batch (accepted: 1 or more)"),
    *[(f"{words} --size {size}", 2, f"--size '{size}': expected rows and columns, as in 256x256, or one number for all of them")
      for words, size in ((SPATIAL, "256,256"), (SPATIAL, "1x2x3"), (SPATIAL, "0"), ("bench --net vae-decoder", "8x8x8"))],
    (f"{SPATIAL} --multiple 0", 2, "--multiple '0': not a number of rows (accepted: 1 to 1048576)"),
    (f"{SPATIAL} --size 32", 2, "--size '32': alexnet: node 'pool5': a window of 3 over an image of 1 …"),
    ("doctor --pid self", 2, "--pid 'self': not a process id; `ps -e` lists them"),
    ("doctor --pid 99999999", 2, "--pid: there is no process 99999999; `ps -e` lists them"),
    # ---- Options that exclude each other.
    *[(f"run {option} -- true", 2, f"{option.split()[0]} is the stand-in's: it needs --host")
      for option in ("--devices 2", "--device-memory 1GiB")],
    *[(f"{what} --{option} -- true", 2, f"--{option.split()[0]}: is for the budget of --total-workspace SIZE, which is missing")
      for what in ("run", "doctor") for option in ("division shared", "solver glpk")],
    (f"{BENCH} --cliff --devices all", 2, "--devices: --cliff runs everything on one device"),
    *[(f"run --ranks {ranks} --spatial {grid} -- true", 2, f"--ranks {ranks}: the grid {grid} is for {size} ranks")
      for ranks, grid, size in ((3, "h4", 4), (4, "n2h4", 8), (1, "w2", 2), (64, "h65", 65))],
    ("run --spatial h4 -- true", 2, "the grid h4 is for 4 ranks, and no launcher says which one this process is; start it with "
                                    "`ucudnn run --ranks 4`, torchrun, mpirun or srun"),
    ("run --off --ranks 4 --spatial h4 -- true", 2, "the grid h4 does not go with UCUDNN_MODE=off: each rank would compute its "
                                                    "stripe without its neighbours' rows"),
    ("run --spatial h4 --off -- env true", 2, "the grid h4 does not go with UCUDNN_MODE=off: …"),
    *[(typed, 2, f"{option} is not an option; …") for typed, option in (
        ("doctor --spatial h4 -- true", "--spatial"), ("bench --spatial h4 --net alexnet --batch 4", "--spatial"),
        ("workspace --ranks 4", "--ranks"), (f"{BENCH} --report r.json", "--report"), ("workspace --engines both", "--engines"),
        ("multigrid kirby-3m --procesors 4", "--procesors"))],
    *[(words, 2, SOURCES) for words in ("bench", f"{BENCH} --net alexnet", "bench --trace report.json --net alexnet")],
    (f"{BENCH} --pass-through", 2, "--pass-through: is for the operators of --net FILE, which is missing"),
    (f"{BENCH} --input 3x8x8", 2, "--input: is for the images of --net FILE, which is missing"),
    (f"{BENCH} --size 64", 2, "--size: is for the images of --net, which is missing"),
    ("bench --net alexnet", 2, "--net needs the mini-batch: --batch N"),
    (f"{WORKSPACE} --solver glpk", 2, "--solver: solves the division of --total-workspace SIZE, which is missing"),
    *[(f"{PLAN} {words}", 2, "--json, --dot, --html and --schedule: one of them at a time")
      for words in ("--json --dot", "--schedule --json")],
    *[(f"{PLAN} {words}", 2, f"{option}: prints a table, which --json, --dot, --html and --schedule do not have")
      for words, option in (("--schedule --simulate", "--simulate"), ("--best 2 --json", "--best"))],
    *[(f"{PLAN} {words}", 2, f"--update {words.split()[-1]}: is a model that no schedule executes; {words.split()[0]} takes owner or hierarchical")
      for words in ("--schedule --update ring", "--simulate --update tree")],
    (f"{PLAN} --scheme b", 2, "--scheme: belongs to --schedule or --simulate, which are missing"),
    (f"{PLAN} --schedule --scheme b", 2, "--scheme: belongs to --strategy owt"),
    (f"{OWT} --passes 4", 2, "--passes: belongs to --scheme b or c; a takes all images in one pass"),
    (f"{PLAN} --boxes", 2, "--boxes: adds to --json, which is missing"),
    (f"{PLAN} -o plan.json", 2, "-o 'plan.json': writes what --json, --dot, --html or --schedule print; one of them is missing"),
    *[(f"{PLAN} {words}", 2, f"{words.split()[0]}: belongs to --cost measured, which --db and --device together mean")
      for words in ("--db s.db", "--db s.db --cost roofline", "--device Toy")],
    ("doctor --host", 2, "--host is for a program; it is written behind --"),
    *[(f"{MULTIGRID} {option} {value}", 2, f"{option}: says how to train; expected --train FOLDER with it") for option, value in (
        ("--epochs", "3"), ("--examples", "3"), ("--rate", "3"), ("--momentum", "0.5"), ("--backward-cycles", "3"), ("--repeat", "3"),
        ("--data-parallel", "2"))],
    *[(f"{MULTIGRID} {option} {value}", 2, f"{option}: is of a device; expected --backend cudnn with it") for option, value in (
        ("--way", "streams"), ("--launch", "graph"), ("--precision", "fp16"), ("--streams", "2"), ("--workspace-limit", "1MiB"))],
    *[(f"{CHAIN} {words}", 2, f"{words.split()[0]}: a chain is what --weights holds, and nothing else")
      for words in ("--layers 8", "--depths 8,16", "--frozen-norms", "--train few")],
    (f"{CHAIN} --seed 1", 2, "--seed: nothing of a chain is drawn; --weights holds all of it"),
    *[(f"multigrid kirby-3m --depths 8,16 {words}", 2,
       f"{words.split()[0]}: --depths solves networks of several depths, with drawn weights")
      for words in ("--layers 8", "--weights chain.safetensors", "--train few")],
    *[(f"{words} --timeline", 2, f"--timeline: {line}") for words, line in (
        ("multigrid kirby-3m --layers 16 --method partitioned", "shows a cycle; --method partitioned has none"),
        *((words, "shows a cycle of one solve; expected neither --train nor --levels 1") for words in (TRAINED, f"{MULTIGRID} --levels 1")),
        (f"{DEVICE} --way grouped", "shows streams; expected --way streams, and not grouped"),
        (f"{DEVICE} --launch graph", "marks each call; expected --launch each, and not graph"),
        (f"{MULTIGRID} --devices 2", "shows the threads or streams of one device; expected no other"),
        (ANALYSED, "notes when a solve runs its layers; --analyse runs no solve to show"))],
    (f"{MULTIGRID} --activation tanh", 2, "--activation: is of a chain; 'kirby-3m' has its own activations"),
    (f"{MULTIGRID} --backend cpu64 --host", 2, "--host: is cudnn on the CPU stand-in, and not of --backend cpu64"),
    (f"{MULTIGRID} --frozen-norms", 2, "--frozen-norms: no residual step of 'kirby-3m' has a batch normalisation"),
    (f"{MULTIGRID} --time 1 --step 1", 2, "--time and --step both say how far a layer goes; expected one of them"),
    (f"{DEVICE} --way grouped --streams 2", 2, "--streams: is of --way streams; grouped runs all blocks in one call"),
    (f"{DEVICE} --threads 2", 2, "--threads: is of the host; expected --streams of a device"),
    (f"{TRAINED} --start previous", 2, "--start previous: no mini-batch is solved twice; expected --repeat 2 or more with it"),
    (f"{MULTIGRID} --method partitioned --cycles 3", 2,
     "--cycles: is of multigrid; --method partitioned runs one layer after the other"),
    *[(f"{ANALYSED} {words}", 2, line) for words, line in (
        ("--method partitioned", "--method: says how to solve; --analyse models all methods"),
        ("--report x.json", "--report: --analyse models one forward pass and one training step; …"),
        ("--start previous", "--start previous: no mini-batch is solved twice; expected broadcast or nested with --analyse"),
        *((f"{option} 2", f"{option}: says how to train; --analyse models one training step, and runs none")
          for option in ("--repeat", "--backward-cycles", "--data-parallel", "--epochs")),
        ("--backend cudnn --way grouped --storage c-points",
         "--storage c-points: --way grouped keeps all states, side by side; streams is expected"))],
    ("multigrid kirby-3m --layers 64 --analyse --backend cudnn --host", 2,
     "--backend cudnn: layers are measured on a device, and --machine says how many there are and what joins them; expected --machine "
     "with it"),
    ("doctor --pid 1 -- true", 2, "--pid and a program: one of them"),
    ("doctor --pid 1 --policy all", 2, "--policy: is for a program that is started; a running one has its own settings"),
    *[(f"{words} --db none", 2, "there is no store; name one with --db PATH")
      for words in ("cache show", "cache import rows.csv", "cache export out.csv", "workspace --layers layers.csv")],
    ("workspace --layers layers.csv --db empty", 2, "the store holds no measurements"),
    ("cache merge s.db --db s.db", 2, "'s.db' is the store itself; name another, or --db PATH"),
    # ---- Files that do not exist or have other contents than expected.
    *[(f"{what} --workspace-plan {file} -- true", 2,
       f"--workspace-plan {file}: {why}; expected a file that `ucudnn workspace -o` wrote")
      for what, file, why in (("run", "none.json", "No such file or directory"), ("run", "text", "no JSON at byte 1"),
                              ("run", "folder", "is no regular file"), ("run", "report.json", "…"),
                              ("doctor", "text", "no JSON at byte 1"))],
    ("run --db folder -- true", 2, "--db 'folder' is a folder; expected a file's path"),
    ("run --db text/m.db -- true", 2, "--db 'text/m.db' cannot be made: …/text is not a folder"),
    ("run --report folder -- true", 2, "--report 'folder' is a folder; expected a file's path"),
    ("run --report text/r.json -- true", 2, "--report 'text/r.json' cannot be made: …/text is not a folder"),
    ("run --report pipe -- true", 2, "--report 'pipe' is no regular file; expected the path of one, or of none"),
    ("bench --layers none.csv", 2, "none.csv: cannot be opened: No such file or directory"),
    ("bench --layers folder", 2, "folder: cannot be read: Is a directory"),
    ("bench --layers empty", 2, "empty:1: no header; expected the columns name,n,c,h,w,k,r,s"),
    ("bench --layers text", 2, "text:1: unknown column 'hello'; expected columns are name,n,c,h,w,k,r,s,…"),
    ("bench --layers binary", 2, "binary:1: field 1: a NUL byte; expected CSV text, not a binary file"),
    ("bench --layers lacks.csv", 2, "lacks.csv:1: the header lacks column 'h'; expected at least name,n,c,h,w,k,r,s"),
    ("bench --layers pad.csv", 2, "pad.csv:1: unknown column 'pad'; expected columns are name,…,pad_h,…"),
    ("bench --layers number.csv", 2, "number.csv:2: column 'h': 'x'; expected a whole number from 1 to 2147483647"),
    ("bench --layers short.csv", 2, "short.csv:2: 3 fields; expected 8, as in the header"),
    ("bench --trace text", 2, f"--trace 'text': no JSON at byte 1; {WRITTEN_REPORT}"),
    # Kernels in reports of version 1 have `streams` and no `lanes`. If such a report were read, all of its kernels
    # would count as kernels of one lane.
    *[(f"{words} --trace old.json", 2,
       "--trace 'old.json': version is 1; expected 2: an older ucudnn wrote it; run the program again with --report")
      for words in ("bench", "workspace --db s.db --total-workspace 9MiB")],
    ("bench --trace report.json --ops backward_filter", 2, "--trace 'report.json': it has no kernels of backward_filter"),
    ("bench --trace report.json --batch 0", 2, "--batch '0': not a mini-batch (accepted: 1 or more)"),
    ("bench --net list.json --batch 4", 2, "--net list.json: 'format'…"),
    *[(f"{words} {option}mish.prototxt", 2, f"{option}mish.prototxt: unsupported operators: 'Mish' (node 'a')") for words, option in (
        ("bench --batch 1", "--net "), ("spatial h2 --batch 1", "--net "), ("plan --machine k80x16 --batch 16", ""))],
    ("bench --net mish.prototxt --batch 1 --pass-through", 2, "--net mish.prototxt: node 'c': kernel_size 0; expected 1 or more"),
    ("plan train_val.prototxt --machine k80x16 --batch 64", 2, "train_val.prototxt: node 'data': crop_size 0 of its images; …: --input "
                                                               "3x224x224 gives them"),
    (f"{BENCH} --db folder", 2, "--db 'folder' is a folder; expected a file's path"),
    ("workspace --layers layers.csv --db folder", 2, "'folder' is a folder; a store is a file"),
    ("workspace --layers layers.csv --db s.db", 2, "no measurements that make up the mini-batch of conv1 …; `ucudnn bench` makes them"),
    *[(f"{words} {path}", 1, f"'{path}' cannot be written: {why}") for words in (
        f"{MULTIGRID} --report", f"{WORKSPACE} -o", f"{PLAN} --json -o", "report report.json -o", "cache export --db s.db")
      for path, why in (("folder", "Is a directory"), ("text/out", "text is not a folder"))],
    (f"{WORKSPACE} -o /dev/full", 1, "'/dev/full' cannot be written: No space left on device"),
    ("plan alexnet --machine folder --batch 4", 2, "--machine folder: cannot be read: Is a directory; it is none of k80x16, …"),
    ("plan alexnet --machine text --batch 4", 2, "--machine text: no JSON at byte 1; expected a machine (ucudnn-machine)"),
    (f"{PLAN} --cost text", 2, "--cost text:1: unknown column 'hello'; expected columns are layer,time_ms,…"),
    ("report none.json", 2, "none.json: cannot be opened: No such file or directory"),
    ("report folder", 2, "folder: cannot be read: Is a directory"),
    ("report empty", 2, f"'empty': no JSON at byte 1; {WRITTEN_REPORT}"),
    ("report cut.json", 2, f"'cut.json': no JSON at byte …; {WRITTEN_REPORT}"),
    ("report s.db", 2, f"'s.db': no JSON at byte 1; {WRITTEN_REPORT}"),
    ("report list.json", 2, "'list.json': is an array of 0; expected an object"),
    ("report foreign.json", 2, "'foreign.json': format is 'else'; expected \"ucudnn-report\", \"ucudnn-workspace-table\" or \"ucudnn-multigrid\""),
    *[(f"{words} --db none.db", 2, "'none.db': there is no such store (yet)") for words in (
        "workspace --layers layers.csv", "report report.json", "cache show", "cache verify", "cache export out.csv",
        f"{PLAN} --cost measured", "workspace --net train_val.prototxt --batch 64 --input 1x28x28")],
    (f"{PLAN} --db s.db --device 'Some GPU'", 2, "--cost measured: 'Some GPU' has no measurements of a share of alexnet's "
                                                 "convolutions at 32 images; `ucudnn bench` makes them"),
    *[(f"{words} text", code, "'text' is not a measurement store: it is damaged: file is not a database") for code, words in (
        (2, "workspace --layers layers.csv --db"), (2, f"{PLAN} --cost measured --device 'Some GPU' --db"),
        (2, "report report.json --db"), (1, "cache show --db"), (1, "cache export out.csv --db"))],
    ("cache show --db folder", 1, "'folder' is a folder; a store is a file"),
    ("cache show --db pipe", 1, "'pipe' is no regular file; a store is one"),
    ("cache show --db s.db:text", 1, "'text' is not a measurement store: it is damaged: file is not a database"),
    ("cache import none.csv --db s.db", 2, "none.csv: cannot be opened: No such file or directory"),
    ("cache import text --db s.db", 2, "text:1: unknown column 'hello'; expected columns are c,h,w,k,r,s,op,engine,…"),
    ("cache import layers.csv --db s.db", 2, "layers.csv:1: the header lacks column 'op'; expected at least c,h,w,k,r,s,op,…"),
    ("cache import nowhere.csv --db s.db", 2, "nowhere.csv:2: column 'device': empty; expected a device, or one given with --device NAME"),
    ("cache import bad.csv --db new.db", 2, "bad.csv:3: column 'time_ms': 'fast'; expected a time in milliseconds, 0 or more"),
    ("cache import rows.csv --db folder", 1, "folder: cannot be opened: not a regular file"),
    ("cache import rows.csv --db text/m.db", 1, "text/m.db: text is not a folder"),
    ("cache merge none.db --db s.db", 1, "none.db: cannot be opened: No such file or directory"),
    ("cache merge text --db s.db", 1, "text: it is damaged: file is not a database"),
    *[(f"cache merge s.db {bad} --db new.db", 1, line) for bad, line in (
        ("none.db", "none.db: cannot be opened: No such file or directory"),
        ("text", "text: it is damaged: file is not a database"))],
    ("cache prune --db folder", 1, "folder: cannot be opened: not a regular file"),
]


class Mistakes(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, text in (("empty", ""), ("text", "hello\nworld\n"), ("cut.json", REPORT[:-20]), ("list.json", "[]"),
                           ("foreign.json", '{"format": "else", "version": 1}'), ("report.json", REPORT),
                           ("old.json", REPORT.replace('"version": 2', '"version": 1')),
                           ("number.csv", ",".join(LAYER) + "\nconv1,8,3,x,16,8,3,3\n"),
                           ("short.csv", ",".join(LAYER) + "\nconv1,8,3\n"), ("lacks.csv", "name,n,c\nconv1,8,3\n"),
                           ("pad.csv", ",".join([*LAYER, "pad"]) + "\n"), ("train_val.prototxt", TRAINING_NET), ("mish.prototxt", MISH_NET),
                           ("digits1.json", digits_net(1)), ("huge.json", HUGE_NET)):
            cls.write(name, text)
        os.chmod(f"{cls.folder}/text", 0o644)
        cls.write("binary", bytes(range(256)) * 8)
        for name, *rows in (("layers.csv", LAYER), ("rows.csv", ROW), ("nowhere.csv", ROW | {"device": ""}),
                            ("bad.csv", ROW, ROW | {"time_ms": "fast"})):
            cls.write_rows(name, rows)
        for name, text in (("no-interpreter", "#!/no/such/interpreter\n"), ("cut-program", "\x7fELF")):
            cls.write(name, text, 0o755)
        few_digits(f"{cls.folder}/few", 32, 16)
        for name, names, steps in (("chain", "K b u0", 16), ("one", "K b u0", 1), ("no-k", "b u0", 16)):
            arrays = chain_arrays(steps)
            safetensors(f"{cls.folder}/{name}.safetensors", {array: arrays[array] for array in names.split()})
        os.mkdir(f"{cls.folder}/folder")
        os.mkfifo(f"{cls.folder}/pipe")
        cls().output("cache", "import", "rows.csv", "--db", "s.db")

    def files(self):
        """Returns {path: (size, time of the last change)} for everything in the folder."""
        return {path: (os.lstat(path).st_size, os.lstat(path).st_mtime_ns)
                for folder, folders, names in os.walk(self.folder) for path in (f"{folder}/{name}" for name in [*folders, *names])}

    def test_each_is_one_line_that_says_what_is_wrong_and_what_would_be_right(self):
        commands = set()
        before = self.files()
        for typed, code, expected in MISTAKES:
            with self.subTest(typed=typed):
                words = shlex.split(typed)
                result = self.run_command(*words, HOME=f"{self.folder}/home")
                names = re.match(r"ucudnn((?: [a-z]+)*): ", result.stderr)
                self.assertIsNotNone(names, result.stderr)
                commands.add(names[1].strip())
                # The line names the command that was typed.
                self.assertEqual(names[1].split(), [word for word in words if word in names[1].split()])
                self.assertEqual(1, result.stderr.count("\n"), result.stderr)
                pattern = ".+".join(re.escape(part) for part in expected.split("…"))
                self.assertRegex(result.stderr[len(names[0]):], rf"\A{pattern}\n\Z")
                self.assertEqual((code, ""), (result.returncode, result.stdout))
        self.assertEqual(before, self.files())
        self.assertLessEqual({"", "run", "bench", "workspace", "plan", "spatial", "multigrid", "report", "doctor", "cache", "cache show", "cache import",
                              "cache export", "cache merge", "cache verify", "cache prune"}, commands)

    def test_there_are_many(self):
        self.assertGreaterEqual(len({typed for typed, _, _ in MISTAKES}), 60)
        self.assertEqual(len(MISTAKES), len({typed for typed, _, _ in MISTAKES}))

    def test_what_cannot_be_printed_is_not_lost_without_a_word(self):
        for typed in ("cache show --db s.db", "cache show --db s.db --json", WORKSPACE, f"{WORKSPACE} --json", PLAN, f"{PLAN} --json",
                      SPATIAL, f"{SPATIAL} --json", MULTIGRID, f"{MULTIGRID} --json", "report report.json", "doctor --json", "run --help", "--version"):
            with self.subTest(typed=typed), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([self.command, *shlex.split(typed)], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                        text=True, timeout=60)
                self.assertEqual(1, result.returncode)
                self.assertRegex(result.stderr, r"\Aucudnn[ a-z]*: cannot be printed: (No space left on device|no room, .+)\n\Z")

    def test_a_reader_that_goes_away_is_no_error(self):
        """If the reader of stdout goes away, the command ends quietly, as `ls` does. It does so even if its parent
        ignores SIGPIPE, as Python does."""
        for typed, parent_ignores in itertools.product(
                ("--version", "plan --help", PLAN, f"{PLAN} --json", WORKSPACE, SPATIAL, MULTIGRID, "doctor", "cache show --db s.db",
                 f"doctor --host -- {self.program}"), (True, False)):
            with self.subTest(typed=typed, parent_ignores=parent_ignores):
                read_end, write_end = os.pipe()
                os.close(read_end)
                started = subprocess.Popen([self.command, *shlex.split(typed)], cwd=self.folder, stdout=write_end,
                                           stderr=subprocess.PIPE, restore_signals=not parent_ignores)
                os.close(write_end)
                _, errors = started.communicate(timeout=60)
                self.assertEqual((-signal.SIGPIPE, b""), (started.returncode, errors))

    def test_a_started_program_has_the_signals_of_its_parent(self):
        for parent_ignores in (True, False):
            ignored = subprocess.run([self.command, "run", "--off", "--", "grep", "SigIgn", "/proc/self/status"], cwd=self.folder,
                                     capture_output=True, text=True, timeout=60, check=True, restore_signals=not parent_ignores)
            mask = int(ignored.stdout.split()[1], 16)
            self.assertEqual(parent_ignores, bool(mask >> (signal.SIGPIPE - 1) & 1))


# Each row has variables, the words after `ucudnn run`, and the line after "ucudnn run: ".
SETTINGS = [
    ({"UCUDNN_SPATIAL": "h0"}, "", f"UCUDNN_SPATIAL='h0': h has 0 parts, where 1 is the least {GRID}"),
    ({"UCUDNN_SPATIAL": "four"}, "--ranks 4", f"UCUDNN_SPATIAL='four': 'f' is no axis {GRID}"),
    ({"UCUDNN_SPATIAL": "h4"}, "", "the grid h4 is for 4 ranks, and no launcher says which one this process is; start it with "
                                   "`ucudnn run --ranks 4`, torchrun, mpirun or srun"),
    ({"UCUDNN_SPATIAL": "h4"}, "--ranks 2", "--ranks 2: the grid h4 is for 4 ranks"),
    ({"UCUDNN_SPATIAL": "h4", "RANK": "0", "WORLD_SIZE": "2"}, "", "the grid h4 is for 4 ranks, but WORLD_SIZE=2"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "--spatial h4", "the grid h4 is for 4 ranks, but WORLD_SIZE=2"),
    ({"UCUDNN_SPATIAL": "h4", "RANK": "4", "WORLD_SIZE": "4"}, "",
     "the grid h4 is for 4 ranks, but RANK=4 is no rank of WORLD_SIZE='4': those begin with 0"),
    ({"UCUDNN_SPATIAL": "h4", "SLURM_PROCID": "x"}, "",
     "the grid h4 is for 4 ranks, but SLURM_PROCID='x' is no rank: expected a number from 0"),
    ({"UCUDNN_SPATIAL": "h2", "PMI_RANK": "0", "PMI_SIZE": "2"}, "",
     "the grid h2 is for 2 ranks, and nobody says where they meet: set UCUDNN_RENDEZVOUS to tcp://HOST:PORT, rank 0's host, or to "
     "file:PATH"),
    ({"UCUDNN_MODE": "off"}, "--ranks 2 --spatial h2", "the grid h2 does not go with UCUDNN_MODE=off: …"),
    ({"UCUDNN_MODE": "observe", "UCUDNN_SPATIAL": "h2"}, "--ranks 2", "the grid h2 does not go with UCUDNN_MODE=observe: …"),
    ({"UCUDNN_SPATIAL_TIMEOUT": "0"}, "", "UCUDNN_SPATIAL_TIMEOUT='0': no time in which a rank could come (accepted: seconds above 0)"),
    *[({name: value}, "", f"{name}='{value}': not one of the accepted values (accepted: {accepted})")
      for name, value, accepted in (
        ("UCUDNN_SPATIAL_AGREE", "always", "first, each"), ("UCUDNN_SPATIAL_REDUCE", "mean", "all, none"),
        ("UCUDNN_SPATIAL_ONE", "both", "split, replicated"),
        ("UCUDNN_SPATIAL_TRANSPORT", "mpi", "auto, nccl, peer, loopback"))],
    ({"UCUDNN_SPATIAL_TRANSPORT": "peer"}, "--ranks 2 --spatial h2",
     "UCUDNN_SPATIAL_TRANSPORT='peer' is for ranks that are threads of one process, but WORLD_SIZE=2"),
    ({"UCUDNN_RENDEZVOUS": "node1:7001"}, "--ranks 2",
     "UCUDNN_RENDEZVOUS='node1:7001': neither tcp:// nor file: (accepted: tcp://HOST:PORT or file:PATH)"),
    ({"UCUDNN_RENDEZVOUS_TOKEN": "very secret"}, "",
     "UCUDNN_RENDEZVOUS_TOKEN: no token (accepted: up to 256 characters without spaces, the same on all ranks)"),
    ({"UCUDNN_RENDEZVOUS_TOKN": "secret"}, "",
     "UCUDNN_RENDEZVOUS_TOKN is no variable of ucudnn: nothing runs with it; did you mean UCUDNN_RENDEZVOUS_TOKEN?"),
    ({"UCUDNN_SPATIAL_GRID": "h4"}, "--ranks 4", "UCUDNN_SPATIAL_GRID is no variable of ucudnn: nothing runs with it; …"),
    ({"UCUDNN_SPATIAL_AGRE": "each"}, "--host",
     "UCUDNN_SPATIAL_AGRE is no variable of ucudnn: nothing runs with it; did you mean UCUDNN_SPATIAL_AGREE?"),
]


class Settings(CommandTest):
    """Tests settings that would make every call of a program fail, or that would have no effect. `ucudnn run` refuses
    to start a program with them."""

    def test_each_is_one_line_before_anything_starts(self):
        for variables, typed, line in SETTINGS:
            with self.subTest(variables=variables, typed=typed):
                result = self.run_command("run", *shlex.split(typed), "--", self.program, **variables)
                pattern = ".+".join(re.escape(part) for part in line.split("…"))
                self.assertRegex(result.stderr, rf"\Aucudnn run: {pattern}\n\Z")
                self.assertEqual((2, ""), (result.returncode, result.stdout))

    def test_what_is_right_or_empty_starts(self):
        for variables, typed in (({"UCUDNN_SPATIAL": "", "UCUDNN_RENDEZVOUS": "", "UCUDNN_SPATIAL_AGRE": ""}, ""),
                                 ({"UCUDNN_SPATIAL": "h0"}, "--ranks 2 --spatial h2"),
                                 ({"UCUDNN_SPATIAL": "h2", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, ""),
                                 ({"UCUDNN_SPATIAL": "h2", "UCUDNN_SPATIAL_TRANSPORT": "loopback"}, ""),
                                 ({"UCUDNN_MODE": "off"}, "--ranks 2"), ({}, "--off --ranks 2")):
            with self.subTest(variables=variables, typed=typed):
                self.output("run", *shlex.split(typed), "--", self.program, LD_LIBRARY_PATH=self.driver, **variables)

    def test_what_may_start_ranks_itself_starts(self):
        self.write("starts-ranks", f"#!/bin/sh\nRANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost exec {self.program}\n", 0o755)
        for words in (["./starts-ranks"], ["sh", "-c", self.program], ["env", "RANK=0", self.program]):
            with self.subTest(words=words):
                self.assertEqual("h2", self.environment_of("run", "--spatial", "h2", "--", *words)["UCUDNN_SPATIAL"])

    def test_the_doctor_shows_no_secret(self):
        for name in ("UCUDNN_RENDEZVOUS_TOKEN", "UCUDNN_RENDEZVOUS_TOKN"):
            for words in (["doctor"], ["doctor", "--json"]):
                result = self.run_command(*words, **{name: "hidden-word"})
                self.assertIn(f"{name}=(not shown)", result.stdout)
                self.assertNotIn("hidden-word", result.stdout + result.stderr)

    def test_the_doctor_names_what_refuses(self):
        for variables, typed, line in SETTINGS:
            if typed:
                continue
            with self.subTest(variables=variables):
                self.assertIn(line.split("…")[0].split(";")[0], self.run_command("doctor", **variables).stdout)


class Warnings(CommandTest):
    """Tests mistakes that do not prevent a program from running: each prints one line, and the exit code is the
    program's."""

    def assert_warned(self, words, line, **variables):
        result = self.run_command(*words, "--", self.program, "argument", **variables)
        self.assertEqual((7, f"ucudnn run: {line}\n" if line else ""), (result.returncode, result.stderr))

    def test_options_that_off_leaves_unserved(self):
        self.assert_warned(["run", "--off", "--workspace-limit", "1MiB"],
                         "--workspace-limit is not applied: --off leaves the program's cuDNN as it is")
        self.assert_warned(["run", "--off", "--policy", "all", "--report", "r.json"],
                         "--policy, --report are not applied: --off leaves the program's cuDNN as it is")
        self.assert_warned(["run", "--off"], "")

    def test_a_missing_driver_names_the_stand_in(self):
        # With a driver, the command prints nothing.
        told = self.run_command("run", "--", self.program, "argument").stderr
        line = "there is no CUDA driver (libcuda.so.1), so nothing is changed; --host runs a program on the CPU stand-in"
        self.assertIn(told, ("", f"ucudnn run: {line}\n"))
        # This file has the driver's name but cannot be opened, so the line is printed on every machine.
        self.write("broken/libcuda.so.1", "no library\n")
        self.assert_warned(["run"], line, LD_LIBRARY_PATH=f"{self.folder}/broken")
        self.assert_warned(["run"], "", LD_LIBRARY_PATH=self.driver)
        self.assert_warned(["run", "--host"], "")

    def test_a_store_that_is_only_read_and_is_missing(self):
        self.assert_warned(["run", "--host", "--db", "first.db:gone.db"],
                         "--db: there is no store 'gone.db', and only the first is made: it is not read")


if __name__ == "__main__":
    unittest.main()
