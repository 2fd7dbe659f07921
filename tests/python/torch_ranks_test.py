"""Tests statistics over a process group: two processes with half a batch each must compute the same as a single
process."""
import copy
import os
import subprocess
import sys
import tempfile

from setting import expect, largest_difference, require

require("torch")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from foldgrad_torch import MABN, PNStar, UN, replace_norms  # noqa: E402

KINDS, STEPS, RANKS = (UN, MABN, PNStar), 8, 2


def results(kind, process_group, rows):
    """Trains on some of a batch's 6 rows. Returns outputs, gradients and buffers. Row 5 is padding, and so is row 4
    in every other step."""
    norm = kind(4, warmup=3, dtype=torch.float64, process_group=process_group)
    generator, found = torch.Generator().manual_seed(1), []
    for step in range(STEPS):
        x, dy = torch.randn(2, 6, 4, dtype=torch.float64, generator=generator)
        mask = torch.arange(6) < 4 + step % 2
        x = (x * (1 + step % 3))[rows].requires_grad_()
        norm.zero_grad()
        y = norm(x, mask[rows])
        y.backward(dy[rows])
        found += [y.detach(), x.grad]
    return found, [norm.weight.grad, norm.bias.grad], [value.double() for value in norm.buffers()]


def rank_main(files, rank):
    dist.init_process_group("gloo", init_method=f"file://{files}/meet", rank=rank, world_size=RANKS)
    half, everything = slice(3 * rank, 3 * rank + 3), slice(None)
    for kind in KINDS:
        got, want = results(kind, dist.group.WORLD, half), results(kind, None, everything)
        for part in got[1]:
            dist.all_reduce(part)
        pairs = [(a, b[half]) for a, b in zip(got[0], want[0])] + list(zip(got[1] + got[2], want[1] + want[2]))
        off = max(largest_difference(a, b) for a, b in pairs)
        expect(off <= 1e-13, f"{kind.__name__}: differs by {off:.1e} from one process")
        alone = results(kind, None, half)
        expect(largest_difference(alone[2][0], want[2][0]) > 1e-3,
               f"{kind.__name__}: half a batch must have different statistics")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    replace_norms(model, process_group=dist.group.WORLD)
    expect(copy.deepcopy(model)[1].process_group is dist.group.WORLD, "a copy must have the same process group")
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    torch.manual_seed(rank)
    for _ in range(3):
        wrapped(torch.randn(5, 4)).square().sum().backward()
    sums = model[1].run_var.clone()
    dist.all_reduce(sums)
    expect(torch.equal(sums, RANKS * model[1].run_var),
           "ranks must have the same statistics under DistributedDataParallel")
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    if len(sys.argv) == 3:
        rank_main(sys.argv[1], int(sys.argv[2]))
        # After a backward pass, PyTorch 2.15 never joins Gloo's threads. If such a thread frees a tensor while Python
        # shuts down, the process fails (PyTorch issue 190489). So we exit without shutting Python down.
        sys.stdout.flush()
        os._exit(0)
    with tempfile.TemporaryDirectory() as files:
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), files, str(rank)])
                 for rank in range(RANKS)]
        expect(not any(rank.wait(300) for rank in ranks), "a process failed")
    print("statistics over two processes are those of one")


if __name__ == "__main__":
    main()
