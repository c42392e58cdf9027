# cause: trainer-bf16
# torch: 2.13
# ranks: 1
import transformers

transformers.TrainingArguments(output_dir="output", bf16=True)
