"""Trains a tiny GPT-2 with random weights with Hugging Face's Trainer, for frameworks_test.py.

After SIGTERM it saves a checkpoint and ends. The ranks agree on the step. With enable_jit_checkpoint, Trainer lets each rank
decide alone, so that ranks which stop at different steps wait for each other forever.
"""
import os
import signal

import torch
import transformers
from common import SAVES_EVERY, fail_if_asked, parse, report, said_step, say
from transformers.trainer_utils import get_last_checkpoint


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict:
        tokens = torch.randint(0, 32, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class FaultyTrainer(transformers.Trainer):
    def training_step(self, *arguments, **named):
        fail_if_asked(OPTIONS, self.state.global_step + 1)
        return super().training_step(*arguments, **named)


class Steps(transformers.TrainerCallback):
    terminated = 0.0

    def on_step_end(self, arguments, state, control, **named) -> None:
        said_step(state.global_step)
        asked = torch.tensor(self.terminated)
        torch.distributed.all_reduce(asked)
        control.should_save |= bool(asked)
        control.should_training_stop |= bool(asked)


OPTIONS = parse()


def main() -> None:
    torch.manual_seed(7)
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0.0,
                                     embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    arguments = transformers.TrainingArguments(
        output_dir=OPTIONS.folder, max_steps=OPTIONS.steps, per_device_train_batch_size=4, save_steps=SAVES_EVERY,
        save_total_limit=2, logging_steps=4, disable_tqdm=not OPTIONS.bar, report_to=[], use_cpu=True, seed=7)
    steps = Steps()
    signal.signal(signal.SIGTERM, lambda *_: setattr(steps, "terminated", 1.0))
    trainer = FaultyTrainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[steps])
    last = get_last_checkpoint(OPTIONS.folder) if os.path.isdir(OPTIONS.folder) else None
    resumed_at = int(last.rsplit("-", 1)[1]) if last else 0
    try:
        trainer.train(resume_from_checkpoint=last)
    except KeyboardInterrupt:
        if trainer.is_world_process_zero():
            trainer.save_model(os.path.join(OPTIONS.folder, "interrupted"))
        say("interrupted: saved")
        raise
    report(model, arguments.world_size, trainer.state.global_step, resumed_at)


if __name__ == "__main__":
    main()
