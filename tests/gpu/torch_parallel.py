"""Trains a small network in fp64 by a plan with ucudnn.parallel. Ranks over gloo share one GPU; over NCCL there is one rank.
Prints JSON. With `--device cpu` it runs without a GPU, and always over gloo.

    torch_parallel.py whole FOLDER         writes the network to FOLDER/net.json, trains it undivided, and saves the results
    torch_parallel.py rank FOLDER BACKEND  trains it by FOLDER/plan.json as one rank, and prints the distance of its results from
                                           the saved ones, or why the plan was refused
"""

import datetime
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from ucudnn import parallel

DEVICE = "cpu" if sys.argv[-2:] == ["--device", "cpu"] else "cuda"
BATCH, SHAPE, CLASSES, STEPS = 8, (3, 16, 16), 5, 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.pool, self.fc1, self.fc2 = nn.MaxPool2d(2), nn.Linear(8 * 8 * 8, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)) + x)
        return self.fc2(F.relu(self.fc1(torch.flatten(self.pool(x), 1))))


def made():
    torch.manual_seed(0)
    return Net().to(DEVICE)


def trained(model, loss_of):
    """Trains `model` for some steps. `loss_of(images, labels)` returns the loss. Returns the losses, and the model's outputs in
    evaluation."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        images = torch.randn(BATCH, *SHAPE, generator=generator).to(DEVICE)
        labels = torch.randint(0, CLASSES, (BATCH,), generator=generator).to(DEVICE)
        optimizer.zero_grad()
        loss = loss_of(images, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return {"losses": torch.tensor(losses), "outputs": model(images).cpu()}


def whole(folder):
    model = made()
    (folder / "net.json").write_text(parallel.describe(Net(), SHAPE).text())
    found = trained(model, lambda images, labels: F.cross_entropy(model(images), labels))
    torch.save(found | {name: tensor.cpu() for name, tensor in model.state_dict().items()}, folder / "whole.pt")
    return {"torch": torch.__version__, "losses": found["losses"].tolist()}


def rank(folder, backend):
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("gloo" if DEVICE == "cpu" else backend, init_method=f"file://{folder}/meeting",
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
                            timeout=datetime.timedelta(seconds=60))
    figures = {"rank": dist.get_rank()}
    try:
        model = parallel.apply(made(), folder / "plan.json", loss=F.cross_entropy, timeout_s=60)
    except parallel.NotSupported as error:
        return figures | {"refused": str(error)}
    found = trained(model, model)
    report = parallel.report(model)
    found |= {name: tensor.cpu() for name, tensor in parallel.whole_state_dict(model)["model"].items()}
    exact = torch.load(folder / "whole.pt")
    assert found.keys() == exact.keys(), found.keys() ^ exact.keys()
    distances = {name: ((found[name].double() - value.double()).abs().max() / value.double().abs().max()).item()
                 for name, value in exact.items()}
    farthest = max(distances, key=distances.get)
    dist.barrier()  # no rank ends while another one waits for it
    return figures | {"farthest": farthest, "distance": distances[farthest], "difference": report.difference(),
                      "sent": sum(pair[0] for pairs in report.counted.values() for pair in pairs.values()),
                      "own_parameters": sum(parameter.numel() for parameter in model.parameters()),
                      "peak_bytes": report.peak_bytes}


def main():
    torch.set_default_dtype(torch.float64)
    if DEVICE == "cpu":
        torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[2])
    print(json.dumps(whole(folder) if sys.argv[1] == "whole" else rank(folder, sys.argv[3])), flush=True)


if __name__ == "__main__":
    main()
