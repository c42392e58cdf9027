# cause: torchvision-mismatch
# torch: 2.13
# ranks: 1
import torch


@torch.library.register_fake("torchvision::nms")
def meta_nms(boxes, scores, iou_threshold):
    return boxes
