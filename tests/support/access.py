"""Who may do what, asked of the real API server's authorizer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kubernetes import client, config

Question = tuple[str, str, str]
"""Verb, API group, resource or resource/subresource."""


class Access:
    """SubjectAccessReviews; nothing is ever stored."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = client.AuthorizationV1Api(config.new_client_from_config(str(kubeconfig)))

    def allowed(self, user: str, namespace: str | None, asked: Iterable[Question]) -> list[Question]:
        """Those of the questions that are answered with yes."""
        return [question for question in asked if self._review(user, namespace, question)]

    def _review(self, user: str, namespace: str | None, question: Question) -> bool:
        verb, group, resource = question
        name, _, subresource = resource.partition("/")
        attributes = client.V1ResourceAttributes(
            verb=verb, group=group, resource=name, subresource=subresource, namespace=namespace
        )
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        review = self._api.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
        return bool(review.status.allowed)
