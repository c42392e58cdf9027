"""Trains a LightningModule with Lightning's Trainer, for frameworks_test.py."""
import os

import lightning
import torch
from common import SAVES_EVERY, fail_if_asked, make_data, make_model, parse, report, said_step, say
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

OPTIONS = parse()


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()

    def training_step(self, batch, index):
        fail_if_asked(OPTIONS, self.global_step + 1)
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Steps(Callback):
    def on_train_batch_end(self, trainer, module, *ignored) -> None:
        said_step(trainer.global_step)

    def on_exception(self, trainer, module, exception) -> None:
        if isinstance(exception, KeyboardInterrupt):
            if trainer.is_global_zero:
                torch.save(module.state_dict(), os.path.join(OPTIONS.folder, "interrupted.pt"))
            say("interrupted: saved")


def main() -> None:
    checkpoints = ModelCheckpoint(dirpath=OPTIONS.folder, every_n_train_steps=SAVES_EVERY, save_last=True)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_steps=OPTIONS.steps,
                                max_epochs=-1, callbacks=[checkpoints, Steps()], logger=False, log_every_n_steps=1,
                                enable_progress_bar=OPTIONS.bar, enable_model_summary=False)
    module = Net()
    loader = torch.utils.data.DataLoader(make_data(), batch_size=4)
    last = os.path.join(OPTIONS.folder, "last.ckpt")
    resumed_at = torch.load(last, weights_only=False)["global_step"] if os.path.exists(last) else 0
    trainer.fit(module, loader, ckpt_path=last if resumed_at else None)
    report(module.model, trainer.world_size, trainer.global_step, resumed_at)


if __name__ == "__main__":
    main()
