# One image for every process type. Without a command it runs web and worker together.
FROM python:3.13-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app

COPY requirements.txt .
RUN pip install --no-cache-dir --require-hashes -r requirements.txt

COPY . .
RUN useradd --system waybill
USER waybill

EXPOSE 8000
CMD ["python", "-m", "webapp", "all"]
