"""Runs a training loop with Hugging Face Accelerate, for frameworks_test.py."""
import os

import accelerate
import torch
from common import SAVES_EVERY, fail_if_asked, make_data, make_model, parse, report, said_step, say


def main() -> None:
    options = parse()
    accelerator = accelerate.Accelerator(cpu=True)
    assert accelerator.num_processes == int(os.environ.get("WORLD_SIZE", 1)), accelerator.num_processes
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(make_data(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    folder = os.path.join(options.folder, "state")
    steps_file = os.path.join(options.folder, "steps")
    resumed_at = 0
    if os.path.exists(steps_file):
        accelerator.load_state(folder)
        with open(steps_file) as file:
            resumed_at = int(file.read())
    batches = iter(accelerator.skip_first_batches(loader, resumed_at % len(loader)))
    step = resumed_at
    try:
        while step < options.steps:
            try:
                inputs, targets = next(batches)
            except StopIteration:
                batches = iter(loader)
                continue
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            fail_if_asked(options, step)
            said_step(step)
            if step % SAVES_EVERY == 0:
                accelerator.save_state(folder)
                if accelerator.is_main_process:
                    with open(steps_file + ".part", "w") as file:
                        file.write(str(step))
                    os.rename(steps_file + ".part", steps_file)
                accelerator.wait_for_everyone()
    except KeyboardInterrupt:
        if accelerator.is_main_process:
            torch.save(accelerator.unwrap_model(model).state_dict(), os.path.join(options.folder, "interrupted.pt"))
        say("interrupted: saved")
        raise
    report(accelerator.unwrap_model(model), accelerator.num_processes, step, resumed_at)
    accelerator.end_training()


if __name__ == "__main__":
    main()
